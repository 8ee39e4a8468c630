"""A memory file system and its mapped files where /dev/shm holds 64 MB: what has no room is an error, never SIGBUS."""

import errno, mmap, os, sys
os.chdir(sys.argv[1])


def said(run):
    try:
        return run() or "ok"
    except OSError as error:
        return errno.errorcode[error.errno]


def stores(fd, length):
    """A byte into each page of a shared mapping."""
    with mmap.mmap(fd, length) as there:
        for at in range(0, length, 4096):
            there[at] = 7
        there.flush()


small = os.open("small", os.O_RDWR | os.O_CREAT)
os.write(small, b"x" * 5_000_000)
print("small", said(lambda: stores(small, 5_000_000)))
sparse = os.open("sparse", os.O_RDWR | os.O_CREAT)
os.ftruncate(sparse, 63_000_000)
print("sparse", said(lambda: stores(sparse, 63_000_000)))
large = os.open("large", os.O_RDWR | os.O_CREAT)
size = 0
try:
    while size < 200_000_000:
        size += os.write(large, b"y" * 1_000_000)
except OSError as error:
    print("write", errno.errorcode[error.errno], 30_000_000 < size < 70_000_000)
print("moved", said(lambda: stores(large, size)))
print("small", said(lambda: stores(small, 5_000_000)), os.pread(small, 3, 4096 - 1))
print("read", len(os.pread(large, 200_000_000, 0)) == size, os.pread(large, 1, 4096))
os.close(large)
os.unlink("large")
again = os.open("again", os.O_RDWR | os.O_CREAT)
os.write(again, b"z" * 10_000_000)
print("again", said(lambda: stores(again, 10_000_000)), os.pread(again, 2, 4096))
