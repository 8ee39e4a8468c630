"""Files of mappings say what is mapped when they are read; where a descriptor stands is its description's."""
import mmap, os

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

    print("mapped after it was opened:", lines(), "at its end:", os.read(maps, 100))
    os.lseek(maps, 0, os.SEEK_SET)
    print("again:", lines())
    shown.close()
    os.lseek(maps, 0, os.SEEK_SET)
    print("not any more:", lines())
    other = os.dup(maps)
    os.lseek(maps, 0, os.SEEK_SET)
    first, second = os.read(maps, 50), os.read(other, 50)
    print("one offset:", os.lseek(maps, 0, os.SEEK_CUR), os.lseek(other, 0, os.SEEK_CUR))
    print("read at a place:", os.pread(maps, 50, 0) == first, os.pread(other, 50, 50) == second)
    buffers = [bytearray(20), bytearray(30)]
    print("into two buffers:", os.preadv(maps, buffers, 0), b"".join(buffers) == first)
    for offset, whence in [(-1, os.SEEK_SET), (0, os.SEEK_END), (-1000, os.SEEK_CUR), (10 ** 9, os.SEEK_SET)]:
        try:
            print("to", offset, os.lseek(maps, offset, whence), os.read(maps, 10))
        except OSError as error:
            print("to", offset, error.strerror)
    print("nothing:", os.read(maps, 0), "size:", os.fstat(maps).st_size, os.readlink(f"/proc/self/fd/{maps}").split("/")[-1])
    try:
        os.write(maps, b"x")
    except OSError as error:
        print("written:", error.strerror)
    os.lseek(maps, 0, os.SEEK_SET)
    if os.fork() == 0:
        os._exit(0 if os.read(other, 50) == first else 1)
    print("to a child:", os.wait()[1])
    os.close(maps)
    os.lseek(other, 0, os.SEEK_SET)
    print("after the other was closed:", os.read(other, 50) == first)
    os.dup2(file, other)
    print("something else since:", os.read(other, 3))
    os.close(other), os.close(file)
