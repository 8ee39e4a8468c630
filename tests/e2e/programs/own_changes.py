"""Changes through one name, seen through another, at once: nothing that is remembered may show. Prints what must be the same everywhere."""

import ctypes, mmap, os, stat


def look(label, path):
    try:
        s = os.lstat(path)
    except OSError as e:
        print(label, e.strerror)
        return None
    print(label, oct(s.st_mode), s.st_nlink, s.st_size if not stat.S_ISDIR(s.st_mode) else "-", s.st_uid)
    return s


def write(path, data, flags=os.O_WRONLY | os.O_CREAT, mode=0o644):
    fd = os.open(path, flags, mode)
    os.write(fd, data)
    os.close(fd)


def read(path):
    with open(path, "rb") as f:
        return f.read()


# Two names of one file.
write("a", b"one")
os.link("a", "b")
look("a", "a"), look("b", "b")
write("b", b"longer text")
look("a", "a"), print(read("a"))
os.truncate("a", 4)
look("b", "b"), print(read("b"))
os.chmod("b", 0o600)
look("a", "a")
os.rename("b", "c")
look("a", "a"), look("b", "b"), look("c", "c")
os.unlink("a")
look("a", "a"), look("c", "c")

# Content read often, then changed in each way.
for turn in range(6):
    print(turn, read("c"))
write("c", b"C")
print(read("c"))
fd = os.open("c", os.O_RDWR)
for turn in range(5):
    print(turn, read("c"))
os.pwrite(fd, b"through an open one", 0)
print(read("c")), look("c", "c")
os.ftruncate(fd, 9)
print(read("c")), look("c", "c")
os.close(fd)
write("c", b"+", os.O_WRONLY | os.O_APPEND)
print(read("c"))
write("c", b"", os.O_WRONLY | os.O_TRUNC)
print(read("c")), look("c", "c")
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("c", os.O_RDWR)
print(libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(5000))), look("c", "c")
os.close(fd)
write("src", b"to be copied")
look("src", "src")
with open("src", "rb") as s, open("c", "r+b") as d:
    look("c", "c")
    print(os.copy_file_range(s.fileno(), d.fileno(), 12, 0, 5000))
print(read("c")[:14]), look("c", "c")

# Stores through a mapping: content at once, times by the next sync at the latest.
write("m", b"\0" * 8192)
os.utime("m", (5, 5))
fd = os.open("m", os.O_RDWR)
look("m", "m"), print(os.stat("m").st_mtime)
area = mmap.mmap(fd, 8192)
print(os.stat("m").st_mtime)
area[4096:4101] = b"store"
area.flush()
print(os.stat("m").st_mtime > 5, read("m")[4096:4102])
area.close()
os.close(fd)
print(os.stat("m").st_mtime > 5)

# Set-user-ID goes with a write, also for who has looked before.
write("s", b"x")
os.chmod("s", 0o6755)
look("s", "s")
if os.getuid() != 0:
    fd = os.open("s", os.O_WRONLY)
    look("s", "s")
    os.write(fd, b"y")
    look("s", "s")
    os.close(fd)
    look("s", "s")

# Names that were not there.
look("new", "new"), look("d", "d")
os.mkdir("d")
look("d", "d"), look(".", ".")
os.symlink("d", "l")
print(os.listdir("l"), sorted(os.listdir(".")))
write("d/x", b"")
print(os.listdir("l"), os.listdir("d"))
os.mkdir("d/sub"), look("d", "d")
os.rename("d/sub", "sub"), look("d", "d"), look("d/sub", "d/sub"), look("sub", "sub")
os.rename("d", "e")
look("d", "d"), print(os.listdir("e"), read("e/x"))
try:
    os.listdir("l")
except OSError as e:
    print(e.strerror)
os.unlink("l"), os.symlink("e", "l")
print(os.listdir("l"), os.readlink("l"))
for name in ("p", "q"):
    write(name, name.encode())
look("p", "p"), look("q", "q")
os.replace("p", "q")
print(read("q")), look("p", "p"), look("q", "q")
os.unlink("e/x"), os.rmdir("e"), os.rmdir("sub")
look("e", "e"), look("e/x", "e/x")
before = os.stat(".").st_mtime_ns
write("last", b"")
print(os.stat(".").st_mtime_ns > before, sorted(os.listdir(".")))

# A file that replaces another under the same name, and one without a name.
fd = os.open("last", os.O_RDWR)
os.write(fd, b"old")
os.unlink("last")
write("last", b"new one")
print(os.fstat(fd).st_nlink, os.fstat(fd).st_size, read("last"), os.pread(fd, 9, 0))
os.close(fd)
fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644)
os.write(fd, b"unnamed")
print(os.fstat(fd).st_nlink)
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
print(libc.linkat(AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, b"named", AT_SYMLINK_FOLLOW))
look("named", "named"), print(os.fstat(fd).st_nlink, read("named"))
os.close(fd)

# Rights.
os.mkdir("r")
write("r/f", b"secret")
os.chmod("r/f", 0)
if os.getuid() != 0:
    try:
        read("r/f")
    except OSError as e:
        print(e.strerror)
os.chmod("r/f", 0o400)
print(read("r/f"))
os.chmod("r", 0o600)
if os.getuid() != 0:
    look("r/f", "r/f")
os.chmod("r", 0o700)
look("r/f", "r/f")
