"""What changes of bytes leave of set-user-ID, set-group-ID and capabilities of a program: each way to change them, by a stranger
and by root without CAP_FSETID. argv[1]: the directory as users have it; argv[2]: the same directory as its files are kept."""

import ctypes
import mmap
import os
import struct
import sys

seen, kept = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH_HOLE, ZERO = 1, 2, 16
# `struct vfs_ns_cap_data` without a user (linux/capability.h): CAP_NET_RAW.
CAPABILITY = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
SIZE = 16384


def allocate(mode, offset=0, length=4096):
    def change(path):
        file = os.open(path, os.O_RDWR)
        if libc.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    return change


def write(flags):
    def change(path):
        page = mmap.mmap(-1, 4096)
        os.write(os.open(path, flags), page)

    return change


def by_call(call):
    return lambda path: call(os.open(path, os.O_RDWR))


def copy(to):
    os.copy_file_range(os.open(os.path.join(seen, "other"), os.O_RDONLY), to, 100, 0, 0)


def copy_within(to):
    os.copy_file_range(to, to, 100, 8192, 0)


def splice(to):
    ours, theirs = os.pipe()
    os.write(theirs, b"x" * 100)
    os.splice(ours, to, 100)


def store(to):
    with mmap.mmap(to, SIZE) as mapped:
        mapped[0] = 1


WAYS = {
    "write": write(os.O_WRONLY),
    "write of both": write(os.O_RDWR),
    "append": write(os.O_WRONLY | os.O_APPEND),
    "direct": write(os.O_WRONLY | os.O_DIRECT),
    "synchronous": write(os.O_WRONLY | os.O_SYNC),
    "truncate": lambda path: os.truncate(path, 3),
    "ftruncate": by_call(lambda file: os.ftruncate(file, 3)),
    "same size": by_call(lambda file: os.ftruncate(file, SIZE)),
    "open": lambda path: os.open(path, os.O_WRONLY | os.O_TRUNC),
    "create": lambda path: os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT),
    "allocate": allocate(0, SIZE),
    "keep size": allocate(KEEP_SIZE, SIZE),
    "punch": allocate(PUNCH_HOLE | KEEP_SIZE),
    "zero": allocate(ZERO),
    "copy": by_call(copy),
    "copy within": by_call(copy_within),
    "splice": by_call(splice),
    "sendfile": by_call(lambda file: os.sendfile(file, os.open("/proc/self/exe", os.O_RDONLY), 0, 100)),
    "vector": by_call(lambda file: os.pwritev(file, [b"a", b"b"], 5)),
    "mapping": by_call(store),
}


def state(path):
    try:
        capable = len(os.getxattr(path, "security.capability"))
    except OSError as error:
        capable = os.strerror(error.errno)
    return f"{os.stat(path).st_mode & 0o7777:o} {capable}"


def limited(who):
    """The process is `who` from here on."""
    if who == "stranger":
        os.setgroups([])
        os.setresgid(1000, 1000, 1000)
        os.setresuid(1000, 1000, 1000)
        return
    # CAP_FSETID is number 4 (capset(2)).
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    for place in 0, 1, 2:
        sets[place] &= ~(1 << 4)
    if libc.capset(header, sets) != 0:
        sys.exit("capset")


def try_out(way, who, mode, capable):
    path = os.path.join(seen, "program")
    with open(path, "wb") as file:
        file.write(b"#" * SIZE)
    os.chown(path, 0, 0)
    os.chmod(path, mode)
    if capable:
        os.setxattr(path, "security.capability", CAPABILITY)
    if state(path) != f"{mode:o} " + ("20" if capable else "No data available"):
        sys.exit(f"not made: {state(path)}")
    read, told = os.pipe()
    child = os.fork()
    if child == 0:
        limited(who)
        try:
            WAYS[way](path)
            os.write(told, b"done")
        except OSError as error:
            os.write(told, os.strerror(error.errno).encode())
        os._exit(0)
    os.close(told)
    os.waitpid(child, 0)
    said = os.read(read, 100).decode()
    os.close(read)
    after = state(path)
    below = state(os.path.join(kept, "program"))
    print(f"{who}: {way} of {mode:o}{' with a capability' if capable else ''}: {said}, {after}" + ("" if after == below else f" but below {below}"))
    os.unlink(path)


os.umask(0)
with open(os.path.join(seen, "other"), "wb") as other:
    other.write(b"?" * SIZE)
for who in "stranger", "root":
    for mode, capable in (0o6777, False), (0o2767, False), (0o777, True):
        for way in WAYS:
            try_out(way, who, mode, capable)
