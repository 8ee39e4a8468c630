"""Who may write a file and does not own it: truncation, times, appends. argv[1]: the directory as users have it; argv[2]: the
same directory as its files are kept. Prints what each call says, and whether both sides agree on size and time afterwards."""

import fcntl
import os
import struct
import sys

seen, kept = sys.argv[1:3]
APPEND_ONLY, GETFLAGS, SETFLAGS = 0x20, 0x80086601, 0x40086602


def flags(path, change):
    with open(path) as file:
        now = struct.unpack("L", fcntl.ioctl(file, GETFLAGS, bytes(8)))[0]
        fcntl.ioctl(file, SETFLAGS, struct.pack("L", change(now)))


def opened(flags, data=None, then=None):
    def call(path):
        file = os.open(path, flags)
        if data:
            os.write(file, data)
        if then:
            then(file)
        os.close(file)

    return call


W, RW, A, T = os.O_WRONLY, os.O_RDWR, os.O_APPEND, os.O_TRUNC
CALLS = {
    "truncating open": opened(W | T, b"x\n"),
    "creating open": opened(W | T | os.O_CREAT, b"xy\n"),
    "truncate": lambda path: os.truncate(path, 2),
    "longer": lambda path: os.truncate(path, 20000),
    "ftruncate": opened(RW, b"abc", lambda file: os.ftruncate(file, 2)),
    "same size": opened(RW, None, lambda file: os.ftruncate(file, 5)),
    "write": opened(W, b"w"),
    "synced": opened(W, b"w", os.fsync),
    "append": opened(W | A, b"more\n"),
    "append and read": opened(RW | A, b"more\n"),
    "append twice": opened(W | A, b"1\n", lambda file: os.write(file, b"2\n")),
    "no more append": opened(W | A, b"1\n", lambda file: fcntl.fcntl(file, fcntl.F_SETFL, 0)),
    "touch": lambda path: os.utime(path),
    "times": lambda path: os.utime(path, (5, 6)),
    "times of the open": opened(W, b"x", lambda file: os.utime(file, (5, 6))),
    "mode": lambda path: os.chmod(path, 0o600),
    "synchronous append": opened(W | A | os.O_SYNC, b"s\n"),
}


def try_out(name, who, mode, owner, append_only):
    path = os.path.join(seen, "file")
    with open(path, "wb") as file:
        file.write(b"12345")
    os.chown(path, owner, owner)
    os.chmod(path, mode)
    os.utime(path, (1000, 2000))
    if append_only:
        flags(path, lambda now: now | APPEND_ONLY)
    read, told = os.pipe()
    child = os.fork()
    if child == 0:
        if who:
            os.setgroups([])
            os.setresgid(who, who, who)
            os.setresuid(who, who, who)
        try:
            CALLS[name](path)
            os.write(told, b"done")
        except OSError as error:
            os.write(told, os.strerror(error.errno).encode())
        os._exit(0)
    os.close(told)
    os.waitpid(child, 0)
    said = os.read(read, 100).decode()
    os.close(read)
    with open(path, "rb") as file:
        content = file.read()
    status, below = os.stat(path), os.stat(os.path.join(kept, "file"))
    times = ["old" if time in (1000, 2000) else time if time < 1000 else "new" for time in (status.st_atime, status.st_mtime)]
    agree = status.st_size == below.st_size and status.st_mtime == below.st_mtime
    what = f"{who} {mode:o} of {owner}"
    if append_only:
        # Not its times: the kernel keeps the old ones of what is written past its cache.
        print(f"{what} append-only: {name}: {said}; {content}")
        flags(path, lambda now: now & ~APPEND_ONLY)
    else:
        print(f"{what}: {name}: {said}; {content[:20]} {len(content)} {times[1]} {agree}")
    os.unlink(path)


os.umask(0)
for who, mode, owner in (1000, 0o666, 0), (1000, 0o222, 0), (1000, 0o444, 0), (1000, 0o644, 1000), (0, 0o644, 1000):
    for append_only in False, True:
        for name in CALLS:
            # FUSE does not tell the kernel that a file may only be appended to.
            if append_only and name == "no more append":
                continue
            try_out(name, who, mode, owner, append_only)
