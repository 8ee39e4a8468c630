"""Directories that are removed while they are held: by a descriptor, by O_PATH, as working directories; and many that come after them."""

import errno, os, signal, sys

top = sys.argv[1]
os.chdir(top)


def outcome(run, *arguments, **options):
    try:
        result = run(*arguments, **options)
        return "ok" if result is None else result
    except OSError as error:
        return errno.errorcode[error.errno]


def looks(what, fd):
    def stated():
        found = os.fstat(fd)
        return oct(found.st_mode), found.st_uid, found.st_nlink
    print(what, "stat", outcome(stated), "same", os.fstat(fd).st_ino == numbers[fd],
          "list", outcome(os.listdir, fd) if what != "path" else "-",
          "make", outcome(os.mkdir, "x", dir_fd=fd), outcome(os.open, "y", os.O_CREAT | os.O_WRONLY, dir_fd=fd),
          "find", outcome(os.stat, "x", dir_fd=fd), outcome(lambda: os.stat(".", dir_fd=fd).st_nlink),
          "go", outcome(os.fchdir, fd), outcome(os.getcwd), outcome(lambda: os.stat(".").st_nlink), flush=True)
    os.chdir(top)


def many(count):
    for i in range(count):
        os.mkdir("many")
        os.rmdir("many")
        open("file", "w").close()
        os.unlink("file")


os.umask(0o022)
numbers = {}
for name in "open", "path", "renamed", "cwd", "other":
    os.mkdir(name)
fds = {"open": os.open("open", os.O_RDONLY), "path": os.open("path", os.O_PATH), "renamed": os.open("renamed", os.O_RDONLY | os.O_DIRECTORY)}
numbers = {fd: os.fstat(fd).st_ino for fd in fds.values()}
os.mkdir("new")

# One that stands in a removed directory, in a process of its own; one that only inherited it; one
# that executes another program there.
ready, said = os.pipe()
children = []
for way in "stays", "executes":
    go, begin = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(begin)
        os.chdir("cwd" if way == "stays" else "other")
        os.write(said, b"x")
        os.read(go, 1)
        if way == "executes":
            os.execlp("sh", "sh", "-c", "stat -c '%F %h' .; ls; pwd -P 2>/dev/null; mkdir x 2>/dev/null || echo no")
        print("in it", outcome(lambda: os.stat(".").st_nlink), outcome(os.listdir), outcome(os.mkdir, "x"), outcome(os.getcwd), outcome(lambda: type(os.stat(".."))), flush=True)
        os._exit(0)
    os.close(go)
    os.read(ready, 1)
    children.append((child, begin))

for name in "open", "path", "cwd", "other":
    os.rmdir(name)
os.rename("new", "renamed")
many(700)
for what, fd in fds.items():
    looks(what, fd)
for child, begin in children:
    os.write(begin, b"x")
    os.close(begin)
    os.waitpid(child, 0)

# Copies hold it, too; the last one that is closed does not.
copied = os.dup(fds["open"])
os.close(fds["open"])
many(600)
numbers[copied] = os.fstat(copied).st_ino
looks("open", copied)

# Children that are killed hold nothing any more: where inodes are few, there are enough of them.
for i in range(120):
    os.mkdir("killed")
    child = os.fork()
    if child == 0:
        fd = os.open("killed", os.O_RDONLY)
        os.write(said, b"x")
        signal.pause()
    os.read(ready, 1)
    os.rmdir("killed")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
for fd in copied, fds["path"], fds["renamed"]:
    os.close(fd)
print(sorted(os.listdir(".")))
