"""Random paths through a random tree with links that climb out of the mount, are absolute, or loop: what each call says, for comparison.

random_paths.py MOUNT OUTSIDE SEED COUNT: MOUNT is an empty directory, OUTSIDE one that is no part of it. Files are known by their sizes, directories
by their names' listing.
"""

import errno
import os
import random
import stat
import sys

mount, outside, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)
name = os.path.basename(mount)
back = os.path.relpath(outside, mount)
NAMES = ["a", "b", "c", "d", "e"]


def make(top):
    """Directories, files of their own sizes, and links of all kinds."""
    directories = [top]
    for i in range(8):
        path = os.path.join(rng.choice(directories), rng.choice(NAMES) + str(i))
        os.mkdir(path)
        directories.append(path)
    for i in range(10):
        with open(os.path.join(rng.choice(directories), "f%d" % i), "wb") as file:
            file.write(b"x" * (i + 1 + len(top) % 7))
    targets = [
        "..", "../..", ".", "f1", "a0", "b1/..", "../" + name, "../../mounts/" + name + "/f2", mount, mount + "/a0",
        outside, back, back + "/f3", outside + "/f4", "/", "/nowhere", "loop", "../../../..", mount + "/../" + name + "/f5", "f1/",
    ]
    for i in range(14):
        place = rng.choice(directories)
        os.symlink(rng.choice(targets), os.path.join(place, "l%d" % i))
    os.symlink("loop", os.path.join(rng.choice(directories), "loop"))
    return directories


directories = make(outside) + make(mount)
everything = ["f%d" % i for i in range(10)] + ["l%d" % i for i in range(14)] + ["loop", "no", "x" * 255, "y" * 256]
everything += [os.path.basename(path) for path in directories]


def shown(found):
    kind = stat.S_IFMT(found.st_mode)
    return "%o %s" % (found.st_mode, found.st_size if kind == stat.S_IFREG else "-")


def path():
    parts = [rng.choice(everything + ["..", ".", ".."]) for _ in range(rng.randint(1, 5))]
    text = rng.choice(["/", "/", "/", "//"]).join(parts) + rng.choice(["", "", "", "/", "//", "/."])
    return rng.choice(["", "", "", mount + "/", mount + "//", outside + "/", rng.choice(directories) + "/"]) + text


def second():
    """The other path of a call, from the working directory."""
    given = path()
    return given if safe(given, os.getcwd()) else "second"


def listing(path, at):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
    try:
        return " ".join(sorted(os.listdir(fd)))
    finally:
        os.close(fd)


def text(path, at):
    fd = os.open(path, rng.choice([os.O_RDONLY, os.O_RDONLY | os.O_NOFOLLOW, os.O_RDWR, os.O_WRONLY | os.O_APPEND]), dir_fd=at)
    try:
        return shown(os.fstat(fd))
    finally:
        os.close(fd)


def create(path, at):
    flags = rng.choice([0, os.O_EXCL, os.O_NOFOLLOW, os.O_TRUNC])
    fd = os.open(path, os.O_CREAT | os.O_RDWR | flags, 0o640, dir_fd=at)
    os.close(fd)
    return "made"


def change(path):
    old = os.getcwd()
    os.chdir(path)
    here = os.getcwd()
    # The space around the two is not a place to work in.
    if not (here + "/").startswith((mount + "/", outside + "/")):
        os.chdir(old)
    return here


def safe(path, base):
    """Whether all that a change of `path` can hit lies below the two trees: what is around them is not a place to work in."""
    whole = os.path.join(base, path)
    places = [os.path.realpath(whole), os.path.join(os.path.realpath(os.path.dirname(whole.rstrip("/"))), "x")]
    return all(place.startswith((mount + "/", outside + "/")) for place in places)


HARMLESS = {"stat", "lstat", "readlink", "access", "open", "list", "chdir"}
CALLS = [
    ("stat", lambda p, at: shown(os.stat(p, dir_fd=at))),
    ("lstat", lambda p, at: shown(os.stat(p, dir_fd=at, follow_symlinks=False))),
    ("readlink", lambda p, at: os.readlink(p, dir_fd=at)),
    ("access", lambda p, at: os.access(p, rng.choice([0, 1, 2, 4, 7]), dir_fd=at)),
    ("open", text),
    ("list", listing),
    ("create", create),
    ("mkdir", lambda p, at: os.mkdir(p, 0o750, dir_fd=at)),
    ("unlink", lambda p, at: os.unlink(p, dir_fd=at)),
    ("rmdir", lambda p, at: os.rmdir(p, dir_fd=at)),
    ("symlink", lambda p, at: os.symlink(rng.choice(["f1", "..", outside]), p, dir_fd=at)),
    ("chmod", lambda p, at: os.chmod(p, rng.choice([0o644, 0o755]), dir_fd=at)),
    ("utime", lambda p, at: os.utime(p, (5, 5), dir_fd=at)),
    ("truncate", lambda p, at: os.truncate(p, 3) if at is None else None),
    ("chdir", lambda p, at: change(p) if at is None else None),
    ("mknod", lambda p, at: os.mkfifo(p, dir_fd=at)),
    ("rename", lambda p, at: os.rename(p, second(), src_dir_fd=at)),
    ("link", lambda p, at: os.link(p, second(), src_dir_fd=at, follow_symlinks=rng.random() < 0.5)),
]


os.chdir(mount)
for number in range(count):
    at = None
    if rng.random() < 0.4:
        try:
            at = os.open(rng.choice(directories), rng.choice([os.O_RDONLY, os.O_PATH, os.O_RDONLY | os.O_DIRECTORY]))
        except OSError:
            at = None
    call, run = rng.choice(CALLS)
    given = path()
    base = os.getcwd() if at is None else os.readlink("/proc/self/fd/%d" % at)
    if call not in HARMLESS and not safe(given, base):
        given = "plain"
    try:
        said = run(given, at)
    except OSError as error:
        said = errno.errorcode[error.errno]
        # Which of the two comes first, where the new name exists in another file system, is not
        # what this test is about.
        if call == "link" and error.errno in (errno.EXDEV, errno.EEXIST):
            said = "EXDEV or EEXIST"
    except ValueError as error:
        said = str(error)
    print(number, call, given if len(given) < 200 else "long", "below a directory" if at else "", said)
    if at is not None:
        os.close(at)
    try:
        os.getcwd()
    except OSError:
        os.chdir(mount)
for top in (mount, outside):
    for place, names, files in sorted(os.walk(top)):
        print(place, sorted(names), sorted(files))
print("descriptors", len(os.listdir("/proc/self/fd")))
