"""Files of mappings say what is mapped; where a descriptor stands is its description's, in every process."""
import mmap, os, resource, socket, subprocess

FILE = os.path.realpath("mapped")
with open(FILE, "wb") as file:
    file.write(b"x" * 8192)

for path in ["/proc/self/maps", "/proc/thread-self/maps", f"/proc/{os.getpid()}/smaps"]:
    maps = os.open(path, os.O_RDONLY)
    file = os.open(FILE, os.O_RDONLY)
    shown = mmap.mmap(file, 8192, prot=mmap.PROT_READ)

    def lines():
        text = b""
        while part := os.read(maps, 1000):
            text += part
        return sum(FILE.encode() in line for line in text.split(b"\n"))

    def child(run):
        """Whether `run` is true in a child."""
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if run() else 1)
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def where():
        return os.lseek(maps, 0, os.SEEK_CUR)

    os.lseek(maps, 0, os.SEEK_SET)
    print("mapped after it was opened:", lines(), "at its end:", os.read(maps, 100))
    os.lseek(maps, 0, os.SEEK_SET)
    print("again:", lines())
    shown.close()
    os.lseek(maps, 0, os.SEEK_SET)
    print("not any more:", lines())
    other = os.dup(maps)
    os.lseek(maps, 0, os.SEEK_SET)
    first, second = os.read(maps, 50), os.read(other, 50)
    print("one offset:", where(), os.lseek(other, 0, os.SEEK_CUR))
    print("read at a place:", os.pread(maps, 50, 0) == first, os.pread(other, 50, 50) == second)
    buffers = [bytearray(20), bytearray(30)]
    print("into two buffers:", os.preadv(maps, buffers, 0), b"".join(buffers) == first)
    for offset, whence in [(-1, os.SEEK_SET), (-1000, os.SEEK_CUR), (10 ** 9, os.SEEK_SET)]:
        try:
            print("to", offset, os.lseek(maps, offset, whence), os.read(maps, 10))
        except OSError as error:
            print("to", offset, error.strerror)
    print("nothing:", os.read(maps, 0))

    # A child and its parent read on from where the other stopped.
    os.lseek(maps, 0, os.SEEK_SET)
    print("by the parent:", os.read(maps, 50) == first)
    print("by a child:", child(lambda: os.read(other, 50) == second), where())
    # It is the parent's, whatever the child maps.
    mapped = lambda: mmap.mmap(file, 8192, prot=mmap.PROT_READ)
    print("of the parent:", child(lambda: mapped() and os.lseek(maps, 0, os.SEEK_SET) == lines() == 0))
    # So does a program that is executed.
    os.lseek(maps, 0, os.SEEK_SET)
    os.read(maps, 50)
    head = subprocess.run(["head", "-c", "60"], stdin=maps, stdout=subprocess.PIPE)
    print("by a program:", head.stdout == os.pread(maps, 60, 50), where())

    os.close(maps)
    os.lseek(other, 0, os.SEEK_SET)
    print("after the other was closed:", os.read(other, 50) == first)
    os.dup2(file, other)
    print("something else since:", os.read(other, 3))
    os.close(other), os.close(file)

    # What nobody has read yet is there for whoever gets it first.
    def fresh(use):
        maps = os.open(path, os.O_RDONLY)
        try:
            return use(maps)
        finally:
            os.close(maps)

    def received(maps):
        one, two = socket.socketpair()
        socket.send_fds(one, [b"x"], [maps])
        got = socket.recv_fds(two, 1, 1)[1][0]
        try:
            return os.read(got, 50)
        finally:
            os.close(got), one.close(), two.close()

    def copied(maps):
        other = os.dup(maps)
        try:
            return os.read(other, 50)
        finally:
            os.close(other)

    run = lambda maps: subprocess.run(["head", "-c", "50"], stdin=maps, stdout=subprocess.PIPE).stdout
    first = fresh(lambda maps: os.read(maps, 50))
    print("first by a child:", fresh(lambda maps: child(lambda: os.read(maps, 50) == first)))
    print("first by a program:", fresh(run) == first)
    print("first by a receiver:", fresh(received) == first, "a copy:", fresh(copied) == first)
    print("first in its middle:", fresh(lambda maps: os.pread(maps, 20, 30)) == first[30:])
    print("its number:", fresh(lambda maps: maps) == fresh(lambda maps: maps))

    # Where no number is left.
    def crowded(maps):
        sockets = []
        try:
            while True:
                sockets.append(socket.socket())
        except OSError:
            pass
        try:
            return os.read(maps, 50)
        finally:
            for one in sockets:
                one.close()

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, limits[1]))
    print("first in a full table:", fresh(crowded) == first)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
