"""Files that were mapped once, then given to another user, and used under that user's name: argv[1] is their directory."""
import mmap
import os
import sys

SECOND = 10**9
PAST = (10**9 * SECOND, 10**9 * SECOND + 5)


def attempt(what, do):
    try:
        print(what, do(), flush=True)
    except OSError as error:
        print(what, os.strerror(error.errno), flush=True)


def make(name):
    path = os.path.join(sys.argv[1], name)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    os.write(fd, b"text" * 100)
    with mmap.mmap(fd, 400) as mapped:
        mapped[0:4] = b"TEXT"
    os.fchmod(fd, 0o666)
    os.chown(path, 65534, 65534)
    return path, fd


def times(path):
    found = os.stat(path)
    return found.st_atime_ns, found.st_mtime_ns


def is_now(path):
    return times(path)[1] > 15 * 10**8 * SECOND


held, descriptor = make("held")
closed, other = make("closed")
os.close(other)
for drop in (lambda: os.seteuid(65534), lambda: (os.seteuid(0), os.setresuid(65534, 65534, 65534))):
    drop()
    for path in (held, closed):
        attempt("past", lambda: os.utime(path, ns=PAST))
        attempt("times", lambda: times(path))
        attempt("now", lambda: os.utime(path))
        attempt("is now", lambda: is_now(path))
        attempt("again", lambda: os.utime(path, ns=PAST))
        attempt("truncate", lambda: os.truncate(path, 300))
        attempt("is now", lambda: is_now(path))
        attempt("again", lambda: os.utime(path, ns=PAST))
        attempt("times", lambda: times(path))
    attempt("write", lambda: os.pwrite(descriptor, b"x", 0))
    attempt("is now", lambda: is_now(held))
    attempt("past", lambda: os.utime(descriptor, ns=PAST))
    with mmap.mmap(descriptor, 300) as mapped:
        mapped[0:4] = b"NEWS"
        mapped.flush()
    attempt("is now", lambda: is_now(held))
