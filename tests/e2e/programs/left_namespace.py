"""Uses a union often after it has left the mount namespace in which the union was opened; what others
mount there below a branch is seen all the same. Words: the union, a branch."""

import ctypes
import os
import sys

libc = ctypes.CDLL(None, use_errno=True)
union, branch = sys.argv[1:]
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18


def done(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags=0):
    done(libc.mount(source, os.fsencode(target), kind, flags, None))


def seen(name):
    try:
        return os.stat(f"{union}/d/{name}").st_size
    except FileNotFoundError:
        return None


# In a namespace of our own, whatever the test runs in.
done(libc.unshare(CLONE_NEWNS))
mount(None, "/", None, MS_REC | MS_PRIVATE)
print(seen("f"))
asked, asks = os.pipe()
answers, answered = os.pipe()
if os.fork() == 0:
    # Stays where the union was opened.
    os.read(asked, 1)
    mount(b"none", f"{branch}/d", b"tmpfs")
    os.write(answered, b"x")
    # The namespace and its mounts live as long as this does.
    os.read(asked, 1)
    os._exit(0)
done(libc.unshare(CLONE_NEWNS))
mount(None, "/", None, MS_REC | MS_PRIVATE)
for again in range(300):
    seen("f")
print(seen("f"))
os.write(asks, b"x")
os.read(answers, 1)
print(seen("f"))
os.write(asks, b"x")
os.wait()
