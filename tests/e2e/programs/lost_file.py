"""A file that no server after the first can open: its descriptor fails, and is nobody else's.

lost_file.py SOURCE MOUNT PARENT   PARENT: the keeper's process id, whose child is killed
"""

import os
import signal
import sys

source, mount, keeper = sys.argv[1], sys.argv[2], int(sys.argv[3])


def server():
    """The keeper's child, or None while there is none."""
    with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as children:
        words = children.read().split()
    return int(words[0]) if words else None


def kill():
    """Kills the server, and waits for the next one to answer."""
    dead = server()
    os.kill(dead, signal.SIGKILL)
    while server() in (None, dead):
        pass
    os.path.exists(f"{mount}/nothing")


def attempt(what):
    try:
        return what().decode()
    except OSError:
        return "lost"


for name in "abc":
    with open(f"{source}/{name}", "w", encoding="ascii") as made:
        made.write(f"content of {name}")
a = os.open(f"{mount}/a", os.O_RDWR)
b = os.open(f"{mount}/b", os.O_RDWR)
os.chmod(f"{source}/a", 0)
for kills in range(2):
    kill()
    c = os.open(f"{mount}/c", os.O_RDWR)
    print(attempt(lambda: os.pread(a, 100, 0)), attempt(lambda: os.pread(b, 100, 0)), sep=", ")
    try:
        os.pwrite(a, b"CONTENT", 0)
        os.fsync(a)
    except OSError:
        print("lost")
    os.close(c)
c = os.open(f"{mount}/c", os.O_RDWR)
try:
    os.close(a)
except OSError:
    # Only where the file system below may have something to report.
    pass
print("closed all the same")
kill()
# The number of the one that was closed is not closed twice.
print(attempt(lambda: os.pread(c, 100, 0)), attempt(lambda: os.pread(b, 100, 0)), sep=", ")
