"""A file with a record lock that others map is written and mapped more often than there are descriptors: the lock stays, and nothing is used up.

locked_writes.py FILE
"""

import ctypes
import fcntl
import mmap
import os
import resource
import sys

path = sys.argv[1]
LIMIT = 100
TIMES = 3 * LIMIT


# Python's own mapping has a descriptor of the file, which it closes.
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_size_t
libc.mmap.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_size_t, ctypes.c_size_t]


def mapped_at(protection):
    at = libc.mmap(0, 8192, protection, mmap.MAP_SHARED, fd, 0)
    if at == ctypes.c_size_t(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    return at


def is_locked():
    """As another process sees it."""
    pid = os.fork()
    if pid == 0:
        with open(path, "r+b") as f:
            try:
                fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1


fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
os.write(fd, b"-" * 8192)

# Another process maps it, and looks again at the end.
mapped, maps = os.pipe()
goes_on, go_on = os.pipe()
other = os.fork()
if other == 0:
    os.close(go_on)
    with mmap.mmap(fd, 8192) as m:
        m[0] = ord("o")
        os.write(maps, b"1")
        os.read(goes_on, 1)
        wrong = (m[:1], m[10:13], m[4096:4099]) != (b"o", b"%d" % (TIMES - 1), b"%d" % (TIMES - 1))
        os._exit(wrong)
os.read(mapped, 1)

fcntl.lockf(fd, fcntl.LOCK_EX)
resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
for i in range(TIMES):
    os.pwrite(fd, b"%d" % i, 10)
print("written", is_locked())
for i in range(TIMES):
    m = mapped_at(mmap.PROT_READ | mmap.PROT_WRITE)
    assert ctypes.string_at(m + 10, 3) == b"%d" % (TIMES - 1)
    ctypes.memmove(m + 4096, b"%03d" % i, 3)
    libc.munmap(m, 8192)
    m = mapped_at(mmap.PROT_READ)
    assert ctypes.string_at(m + 4096, 3) == b"%03d" % i
    libc.munmap(m, 8192)
print("mapped", is_locked())
os.write(go_on, b"1")
print("other", os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
# Any descriptor of it that is closed takes the lock away (fcntl(2)).
os.close(os.open(path, os.O_RDONLY))
print("closed", is_locked())
