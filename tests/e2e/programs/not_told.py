"""Starts a static program with a standard error that takes no line: nothing of it waits, no signal comes, no flag of the description changes. In the end with one
that does."""
import fcntl
import os
import resource
import signal
import socket
import sys

BUSYBOX = "/bin/busybox"
REAL = os.dup(2)


def start(descriptor, prepare=lambda: None):
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.dup2(descriptor, 2)
        prepare()
        os.execv(BUSYBOX, ["busybox", "true"])
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, status


def fill(descriptor):
    os.set_blocking(descriptor, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(descriptor, b"x" * size)
        except BlockingIOError:
            pass
    os.set_blocking(descriptor, True)


reader, writer = os.pipe()
fill(writer)
flags = fcntl.fcntl(writer, fcntl.F_GETFL)
start(writer)
assert fcntl.fcntl(writer, fcntl.F_GETFL) == flags
print("full", flush=True)

os.close(reader)
start(writer)
print("broken", flush=True)

one, other = socket.socketpair()
fill(one.fileno())
start(one.fileno())
other.close()
start(one.fileno())
print("socket", flush=True)

# A file that may not grow: SIGXFSZ.
with open(sys.argv[1], "w") as file:
    start(file.fileno(), lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
assert os.path.getsize(sys.argv[1]) == 0
print("limit", flush=True)

start(REAL)
start(REAL)
print("told", flush=True)
