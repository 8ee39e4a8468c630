#!/usr/bin/env python3
"""Random operations on MOUNT, the same for the same SEED, by the USERS in turn; prints what each gave,
and at the end what lies in SOURCE. `bind_random.py fill SOURCE` makes what they begin with."""
import errno, os, random, stat, sys

NAMES = ["a", "b", "c", "d"]
DIRECTORIES = ["", "x", "y", "x/z"]
PEOPLE = [0, 1, 65534]


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def fill(source):
    os.umask(0)
    chance = random.Random(7)
    os.chmod(source, 0o777)
    for directory in DIRECTORIES[1:]:
        os.mkdir(f"{source}/{directory}", 0o777)
    os.chmod(f"{source}/y", 0o3777)
    for directory in DIRECTORIES:
        for name in NAMES[:3]:
            path = f"{source}/{directory}/{name}"
            put(path, f"{directory} {name}")
            os.chown(path, chance.choice(PEOPLE), chance.choice(PEOPLE))
            os.chmod(path, chance.choice([0o644, 0o600, 0o755, 0o666, 0o640]))
            os.utime(path, (1000000, 1000000))


def seen(path, through=True):
    found = os.lstat(path)
    kind = stat.S_IFMT(found.st_mode)
    mode = found.st_mode & ~(stat.S_ISGID if "NO_SET_GROUP_ID" in os.environ else 0)
    said = f"{mode:o} {found.st_uid} {found.st_gid}"
    # bindfs may say 2 when the other name is gone.
    if kind != stat.S_IFDIR and (not through or "ONE_LINK" in os.environ):
        said += f" {found.st_nlink}"
    if through:
        # Only where the times were set long ago.
        said += f" {found.st_mtime_ns == found.st_ctime_ns}" if found.st_mtime < 1e9 else ""
    if kind == stat.S_IFLNK:
        said += f" {os.readlink(path)}"
    elif kind == stat.S_IFREG:
        said += f" {found.st_size}"
        try:
            with open(path, "rb") as file:
                said += f" {file.read()!r}"
        except OSError as error:
            said += f" {os.strerror(error.errno)}"
    return said


def step(chance, mount, number, user):
    # bindfs sets a time of its own where the program says "now", which more than the right to write
    # is needed for.
    place = lambda: os.path.join(mount, chance.choice(DIRECTORIES), chance.choice(NAMES))
    one, other = place(), place()
    mode = chance.choice([0o600, 0o640, 0o755, 0o711, 0o777])
    person, group = chance.choice(PEOPLE), chance.choice(PEOPLE)
    umask = chance.choice([0, 0o022, 0o077])
    operation = chance.choice(
        "create create open mkdir mkfifo unlink unlink rmdir rename link symlink chmod chmod chmod chown"
        " chgrp both fchmod fchown truncate utime touch read write stat stat access list directory setxattr"
        " getxattr listxattr removexattr".split()
    )
    short = lambda path: path[len(mount):]
    said = f"{user} {operation} {short(one)} {short(other)}"
    os.umask(umask)
    try:
        if operation == "create":
            os.close(os.open(one, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        elif operation == "open":
            os.close(os.open(one, os.O_CREAT | os.O_RDWR, mode))
        elif operation == "mkdir":
            os.mkdir(one, mode)
        elif operation == "directory":
            os.mkdir(os.path.join(mount, chance.choice(DIRECTORIES[1:])), 0o777)
        elif operation == "mkfifo":
            os.mkfifo(one, mode)
        elif operation == "unlink":
            os.unlink(one)
        elif operation == "rmdir":
            os.rmdir(one)
        elif operation == "rename":
            os.rename(one, other)
        elif operation == "link":
            os.link(one, other)
        elif operation == "symlink":
            os.symlink(f"t{number}", one)
        elif operation == "chmod":
            os.chmod(one, mode)
        elif operation == "chown":
            os.chown(one, person, -1, follow_symlinks=False)
        elif operation == "chgrp":
            os.chown(one, -1, group, follow_symlinks=False)
        elif operation == "both":
            os.chown(one, person, group, follow_symlinks=False)
        elif operation in ["fchmod", "fchown"]:
            fd = os.open(one, os.O_RDONLY | os.O_NONBLOCK)
            try:
                if operation == "fchmod":
                    os.fchmod(fd, mode)
                else:
                    os.fchown(fd, person, group)
                said += f" {os.fstat(fd).st_mode:o}"
            finally:
                os.close(fd)
        elif operation == "truncate":
            os.truncate(one, number % 7)
        elif operation == "utime":
            os.utime(one, (2000000 + number, 2000000 + number))
        elif operation == "touch":
            os.utime(one)
        elif operation == "write":
            fd = os.open(one, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
            os.write(fd, b"%d" % number)
            os.close(fd)
        elif operation == "read":
            fd = os.open(one, os.O_RDONLY | os.O_NONBLOCK)
            said += f" {os.read(fd, 100)!r}"
            os.close(fd)
        elif operation == "stat":
            said += " " + seen(one)
        elif operation == "access":
            allowed = lambda wanted: os.access(one, wanted, effective_ids=True)
            said += f" {[allowed(os.R_OK), allowed(os.W_OK), allowed(os.X_OK)]}"
        elif operation == "setxattr":
            os.setxattr(one, "user.a", b"%d" % number, follow_symlinks=False)
        elif operation == "getxattr":
            said += f" {os.getxattr(one, 'user.a', follow_symlinks=False)!r}"
        elif operation == "listxattr":
            said += f" {os.listxattr(one, follow_symlinks=False)!r}"
        elif operation == "removexattr":
            os.removexattr(one, "user.a", follow_symlinks=False)
        else:
            said += " " + " ".join(sorted(os.listdir(os.path.dirname(one))))
    except OSError as error:
        refused = operation == "touch" and error.errno in [errno.EPERM, errno.EACCES]
        said += " refused" if refused else f" {os.strerror(error.errno)}"
    print(number, said)


def state(source):
    for root, directories, files in os.walk(source):
        directories.sort()
        for name in sorted(directories + files):
            path = f"{root}/{name}"
            print(path[len(source):], seen(path, False))


if sys.argv[1] == "fill":
    fill(sys.argv[2])
elif sys.argv[1] == "state":
    state(sys.argv[2])
else:
    seed, steps, mount, *users = sys.argv[1:]
    if os.geteuid() == 0:
        os.setgroups([])
    chance = random.Random(int(seed))
    for number in range(int(steps)):
        user = int(chance.choice(users))
        if user != os.geteuid():
            os.setegid(user)
            os.seteuid(user)
        step(chance, mount, number, user)
        if os.geteuid() != 0 and os.getuid() == 0:
            os.seteuid(0)
            os.setegid(0)
