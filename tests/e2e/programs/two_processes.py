"""What one process changes of a file another sees at once, however it looks: by read(2), with
O_DIRECT, in a mapping, by its size. The argument is a directory."""

import mmap
import os
import subprocess
import sys

OTHER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for line in sys.stdin:
    what, at, byte = line.split()
    if what == "write":
        os.pwrite(fd, byte.encode() * 4096, int(at))
    elif what == "cut":
        os.ftruncate(fd, int(at))
    elif what == "again":
        os.close(fd)
        fd = os.open(sys.argv[1], os.O_RDWR)
    else:
        os.pread(fd, 65536, int(at))
    print("done", flush=True)
"""
PATH = os.path.join(sys.argv[1], "two")
with open(PATH, "wb") as made:
    made.write(b"a" * 16384)
child = subprocess.Popen(
    [sys.executable, "-c", OTHER, PATH], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
)


def other(*words):
    print(*words, file=child.stdin, flush=True)
    assert child.stdout.readline() == "done\n"


read = os.open(PATH, os.O_RDONLY)
direct = os.open(PATH, os.O_RDONLY | os.O_DIRECT)
shown = mmap.mmap(read, 16384, mmap.MAP_SHARED, mmap.PROT_READ)
place = mmap.mmap(-1, 4096)


def see(at, byte):
    expected = byte.encode() * 4096
    assert os.pread(read, 4096, at) == expected, ("read", at, byte)
    assert os.preadv(direct, [place], at) == 4096 and place[:] == expected, ("O_DIRECT", at, byte)
    assert shown[at : at + 4096] == expected, ("mapping", at, byte)


for byte in "bcdefgh":
    for at in (0, 4096, 12288):
        other("write", at, byte)
        see(at, byte)
        other("read", 0, "-")
        see(at, byte)
    other("again", 0, "-")
    see(0, byte)
for size in (4096, 100, 16384, 0, 16384):
    other("cut", size, "-")
    assert os.fstat(read).st_size == size == len(os.pread(read, 65536, 0))
    assert os.pread(read, 10, size) == b""
    other("write", 4096, "z")
    see(4096, "z")
    assert os.pread(read, 65536, 8192) == b"\0" * (max(size, 8192) - 8192)
print("all is seen")
