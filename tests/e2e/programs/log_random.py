#!/usr/bin/env python3
"""Random operations on names and attributes below the directory TARGET, the same for the same SEED."""
import os, random, stat, sys

def asked(one, other=None):
    """Whether the kernel asks the file system: not for what it refuses by the kinds of both, nor for
    another name of the same file."""
    try:
        first = os.lstat(one)
        second = os.lstat(other) if other else None
    except OSError:
        return True
    if not other:
        return stat.S_ISDIR(first.st_mode)
    alike = stat.S_ISDIR(first.st_mode) == stat.S_ISDIR(second.st_mode)
    return alike and first.st_ino != second.st_ino


target, chance = sys.argv[1], random.Random(int(sys.argv[2]))
NAMES = ["a", "b", "c", "d", "e f", "g"]
os.umask(0o022)
os.chdir(target)
for directory in ("x", "y"):
    os.mkdir(directory)
for number in range(400):
    place = lambda: os.path.join(chance.choice(["", "x", "y"]), chance.choice(NAMES))
    one, other = place(), place()
    operation = chance.choice("make make mkdir rmdir unlink rename link symlink readlink chmod chown"
                              " truncate mkfifo write sync".split())
    mode = chance.choice([0o600, 0o644, 0o711, 0o755])
    try:
        if operation == "make":
            os.close(os.open(one, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        elif operation == "mkdir":
            os.mkdir(one, mode)
        elif operation in ("rename", "rmdir") and not asked(one, *[other] * (operation == "rename")):
            pass
        elif operation == "rename":
            os.rename(one, other)
        elif operation == "link":
            os.link(one, other)
        elif operation == "symlink":
            os.symlink(f"to {number}", one)
        elif operation == "readlink":
            os.readlink(one)
        elif operation == "chmod":
            os.chmod(one, mode)
        elif operation == "chown":
            os.chown(one, chance.choice([-1, 1, 2]), chance.choice([-1, 3]))
        elif operation == "truncate":
            os.truncate(one, chance.choice([0, 5, 5000]))
        elif operation == "mkfifo":
            os.mkfifo(one, mode)
        elif operation in ("write", "sync"):
            file = os.open(one, os.O_WRONLY | os.O_NONBLOCK)
            if operation == "write":
                os.pwrite(file, b"w" * chance.choice([1, 100, 4000]), chance.choice([0, 7, 3 << 30]))
            else:
                os.fsync(file)
            os.close(file)
        else:
            {"rmdir": os.rmdir, "unlink": os.unlink}[operation](one)
    except OSError:
        pass
