"""Opens files until the server has no descriptor left, and kills it: the next one has them all.

few_descriptors.py MOUNT PARENT   PARENT: the keeper's process id, whose child is killed
"""

import errno
import os
import signal
import sys

mount, keeper = sys.argv[1], int(sys.argv[2])


def server():
    """The keeper's child, or None while there is none."""
    with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as children:
        words = children.read().split()
    return int(words[0]) if words else None


files = {}
try:
    for name in sorted(os.listdir(mount)):
        files[name] = os.open(f"{mount}/{name}", os.O_RDONLY)
except OSError as error:
    print(errno.errorcode[error.errno])
for kills in range(3):
    dead = server()
    os.kill(dead, signal.SIGKILL)
    while server() in (None, dead):
        pass
    # From the new server, not from memory.
    for fd in files.values():
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    wrong = [name for name, fd in files.items() if os.pread(fd, 100, 0) != name.encode()]
    print(len(files) > 0, wrong)
