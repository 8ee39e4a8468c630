#!/usr/bin/env python3
"""Random operations on a union at MOUNT, the same for the same SEED; prints what each gave, and at the
end what lies on each of the BRANCHES. `union_random.py fill BRANCHES...` makes what they begin with.
$MORE: `links` that lead somewhere, `fixed` files that nobody may write, `xattrs`, renames to `free` names
alone, or none (`still`)."""
import hashlib, os, random, stat, sys

NAMES = ["a", "b", "c", "d"]
DIRECTORIES = ["", "x", "y", "x/z", "y/z"]
MORE = os.environ.get("MORE", "").split()
TARGETS = ["a", "b", "x", "y", "x/a", "../a", "../x/b", "z", "../y/z", "../../c"]
PLACES = ["basepath", "relpath", "fullpath", "allpaths"]


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def fill(branches):
    """Each has some of everything, and what several have differs by age, later ones being newer."""
    os.umask(0)
    for at, branch in enumerate(branches):
        for bit, directory in enumerate(DIRECTORIES[1:]):
            if (at + bit) % 3 != 1 and os.path.isdir(os.path.dirname(f"{branch}/{directory}")):
                os.makedirs(f"{branch}/{directory}")
        for bit, name in enumerate(NAMES):
            for directory in DIRECTORIES:
                if (at * 2 + bit + len(directory)) % 5 < 2 and os.path.isdir(f"{branch}/{directory}"):
                    put(f"{branch}/{directory}/{name}", f"{at} {directory} {name}")
        for root, directories, files in os.walk(branch):
            for name in directories + files:
                os.utime(f"{root}/{name}", (1000000 + at, 1000000 + at))


def seen(path):
    found = os.lstat(path)
    kind = stat.S_IFMT(found.st_mode)
    said = f"{found.st_mode:o} {found.st_uid}"
    if kind == stat.S_IFREG:
        with open(path, "rb") as file:
            said += f" {found.st_size} {hashlib.md5(file.read()).hexdigest()[:8]}"
    elif kind == stat.S_IFLNK:
        said += f" {os.readlink(path)}"
    return said


def step(chance, mount, number):
    place = lambda: os.path.join(mount, chance.choice(DIRECTORIES), chance.choice(NAMES))
    one, other = place(), place()
    mode = chance.choice([0o444, 0o555, 0o640] if "fixed" in MORE else [0o600, 0o640, 0o755])
    operations = (
        "create create mkdir unlink unlink rmdir rename rename link symlink chmod truncate utime"
        " write stat list directory"
    )
    if "xattrs" in MORE:
        operations += " setxattr setxattr getxattr getxattr listxattr removexattr place place"
    operation = chance.choice(operations.split())
    short = lambda path: path[len(mount):]
    said = f"{operation} {short(one)} {short(other)}"
    try:
        if operation == "create":
            os.close(os.open(one, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        elif operation == "mkdir":
            os.mkdir(one, 0o700 | mode)
        elif operation == "directory":
            os.mkdir(os.path.join(mount, chance.choice(DIRECTORIES[1:])), 0o755)
        elif operation == "unlink":
            os.unlink(one)
        elif operation == "rmdir":
            os.rmdir(one)
        elif operation == "rename" and ("still" in MORE or "free" in MORE and os.path.lexists(other)):
            said += " not"
        elif operation == "rename":
            os.rename(one, other)
        elif operation == "link":
            os.link(one, other)
        elif operation == "symlink":
            os.symlink(chance.choice(TARGETS) if "links" in MORE else f"t{number}", one)
        elif operation == "setxattr":
            os.setxattr(one, f"user.{number % 3}", b"%d" % number)
        elif operation == "getxattr":
            said += f" {os.getxattr(one, f'user.{number % 3}')}"
        elif operation == "listxattr":
            said += f" {sorted(name for name in os.listxattr(one) if 'mergerfs' not in name)}"
        elif operation == "removexattr":
            os.removexattr(one, f"user.{number % 3}")
        elif operation == "place":
            said += f" {os.getxattr(one, 'user.mergerfs.' + PLACES[number % 4])}"
        elif operation == "chmod":
            os.chmod(one, mode)
        elif operation == "truncate":
            os.truncate(one, number % 7)
        elif operation == "utime":
            os.utime(one, (2000000 + number, 2000000 + number))
        elif operation == "write":
            fd = os.open(one, os.O_WRONLY | os.O_APPEND)
            os.write(fd, b"%d" % number)
            os.close(fd)
        elif operation == "stat":
            said += " " + seen(one)
        else:
            said += " " + " ".join(sorted(os.listdir(os.path.dirname(one))))
    except OSError as error:
        said += f" {os.strerror(error.errno)}"
    print(number, said)


def state(branch):
    for root, directories, files in os.walk(branch):
        directories.sort()
        for name in sorted(directories + files):
            path = f"{root}/{name}"
            print(path[len(branch):], seen(path))


if sys.argv[1] == "fill":
    fill(sys.argv[2:])
else:
    seed, steps, mount, *branches = sys.argv[1:]
    os.umask(0)
    chance = random.Random(int(seed))
    for number in range(int(steps)):
        step(chance, mount, number)
    for branch in branches:
        print(f"== {os.path.basename(branch)}")
        state(branch)
