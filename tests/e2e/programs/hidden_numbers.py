# Whether a call finds a descriptor where fstat(2) says that there is none: hidden_numbers.py FILE
import ctypes
import errno
import sys

libc = ctypes.CDLL(None, use_errno=True)
kept = open(sys.argv[1], "w")
room = ctypes.create_string_buffer(4096)
AT_EMPTY_PATH = 0x1000
FICLONE = 0x40049409
LOCK_EX = 2


def is_there(*call):
    return libc.syscall(*call) >= 0 or ctypes.get_errno() != errno.EBADF


def calls(fd):
    yield "cachestat", (451, fd, room, room, 0)
    yield "quotactl_fd", (443, fd, 0, 0, 0)
    yield "open_tree", (428, fd, b"", AT_EMPTY_PATH)
    yield "fchdir", (81, fd)
    yield "FICLONE", (16, kept.fileno(), FICLONE, fd)
    yield "flock", (73, fd, LOCK_EX)


missing = [fd for fd in range(1024) if not is_there(5, fd, room)]
found = [(name, fd) for fd in missing for name, call in calls(fd) if is_there(*call)]
natively = {name for name, call in calls(-1) if is_there(*call)}
print(sorted({name for name, _ in found} - natively), len(missing) > 900)
