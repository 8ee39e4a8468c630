"""Writing where the kernel keeps what is written for a while. Usage: written_back.py DIRECTORY [SOURCE]: with SOURCE, where the files lie, what was synced must be there."""
import mmap, os, stat, sys, time

place, source = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else sys.argv[1]
os.chdir(place)
os.umask(0o022)


def show(what, *values):
    print(what, *values, flush=True)


def whole(name, directory=source):
    with open(os.path.join(directory, name), "rb") as file:
        return file.read()


# Two processes append, each by an open file of its own.
def append(letter):
    fd = os.open("appended", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number in range(500):
        os.write(fd, b"%c%03d " % (letter, number))
    os.close(fd)


children = []
for letter in b"ab":
    child = os.fork()
    if child == 0:
        append(letter)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
words = whole("appended", ".").split()
show("appended", len(words), *(sum(word.startswith(letter) for word in words) for letter in (b"a", b"b")))
show("in order", all([word for word in words if word.startswith(letter)] == sorted(word for word in words if word.startswith(letter)) for letter in (b"a", b"b")))

# Parts of a page, by a descriptor that may only write: the rest of the page has to be read.
with open("parts", "wb") as file:
    file.write(bytes(range(256)) * 40)
fd = os.open("parts", os.O_WRONLY)
os.pwrite(fd, b"here", 5000)
os.pwrite(fd, b"past the end", 10300)
show("parts", os.fstat(fd).st_size)
os.fsync(fd)
show("synced", whole("parts") == whole("parts", "."), whole("parts")[4990:5010], whole("parts")[10230:])
os.close(fd)
os.chmod("parts", 0o200)
fd = os.open("parts", os.O_WRONLY)
os.pwrite(fd, b"HERE", 9000)
os.close(fd)
os.chmod("parts", 0o600)
show("write-only", whole("parts", ".")[8990:9010])
fd = os.open("parts", os.O_WRONLY | os.O_APPEND)
os.write(fd, b"end")
os.ftruncate(fd, 5002)
os.write(fd, b"!")
os.close(fd)
show("cut", whole("parts", ".")[4998:])

# Times: a write moves them, a time that was set stays, and both are the file's, not only the
# mount's.
fd = os.open("times", os.O_RDWR | os.O_CREAT, 0o644)
os.utime("times", (1000, 1000))
show("set", os.fstat(fd).st_mtime)
before = time.time()
os.write(fd, b"x")
moved = os.fstat(fd)
show("moved", moved.st_mtime > before - 1, moved.st_ctime > before - 1)
os.fsync(fd)
show("kept", os.stat(os.path.join(source, "times")).st_mtime_ns == os.fstat(fd).st_mtime_ns)
os.utime(fd, (2000, 2000.5))
os.close(fd)
show("set again", os.stat("times").st_mtime, os.stat(os.path.join(source, "times")).st_mtime)

# Another user's file, that this one may write: its time moves though only the owner may set it. As
# root, whoever it is.
if os.geteuid() == 0:
    os.chmod("times", 0o666)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        fd = os.open("times", os.O_WRONLY)
        os.write(fd, b"y")
        os.close(fd)
        os._exit(0)
    show("others", os.waitpid(child, 0)[1], os.stat(os.path.join(source, "times")).st_mtime > before - 1)
    os.chmod("times", 0o4777)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        fd = os.open("times", os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"z")
        os.close(fd)
        os._exit(0)
    show("set-user-ID", os.waitpid(child, 0)[1], oct(stat.S_IMODE(os.stat(os.path.join(source, "times")).st_mode)), whole("times"))

# A mapping and calls see each other; what is there is there for those that open it anew.
fd = os.open("mapped", os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(fd, 8192)
with mmap.mmap(fd, 8192) as memory:
    memory[0:5] = b"store"
    os.pwrite(fd, b"write", 4096)
    show("mapping", os.pread(fd, 5, 0), memory[4096:4101])
    memory.flush()
os.close(fd)
show("mapped", whole("mapped")[:5], whole("mapped")[4096:4101], len(whole("mapped")))

# Holes may be anywhere or nowhere, but bytes are found.
fd = os.open("holes", os.O_RDWR | os.O_CREAT, 0o644)
os.pwrite(fd, b"data", 1 << 20)
at = os.lseek(fd, 0, os.SEEK_DATA)
show("data", at <= 1 << 20, os.lseek(fd, 0, os.SEEK_END))
os.close(fd)
