"""Makes a driver do everything that programs can ask for: every_method.py DIRECTORY.

What fails is passed over: what counts is which of the driver's methods were called.
"""
import array
import ctypes
import fcntl
import mmap
import os
import select
import shutil
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
FS_IOC_GETFLAGS = 0x80086601


def tries(what, *arguments, **named):
    try:
        return what(*arguments, **named)
    except OSError as error:
        print(f"{getattr(what, '__name__', what)}: {error.strerror}")
        return None


def files():
    a = os.open("a", os.O_RDWR | os.O_CREAT, 0o644)
    b = os.open("b", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(a, b"x" * 10000)
    os.pread(a, 10, 5)
    log = os.open("a", os.O_WRONLY | os.O_APPEND)
    os.write(log, b"more")
    os.close(log)
    os.fstat(a)
    os.ftruncate(a, 8192)
    os.fsync(a)
    os.fdatasync(a)
    tries(os.posix_fallocate, a, 0, 16384)
    tries(os.lseek, a, 0, os.SEEK_DATA)
    tries(os.copy_file_range, a, b, 4096, 0, 0)
    tries(fcntl.ioctl, a, FS_IOC_GETFLAGS, array.array("L", [0]))
    for command in (fcntl.LOCK_EX, fcntl.LOCK_UN):
        tries(fcntl.flock, a, command)
        tries(fcntl.lockf, a, command)
    F_GETLK = 5
    tries(fcntl.fcntl, a, F_GETLK, bytes(32))
    poll = select.poll()
    poll.register(a)
    poll.poll(0)
    for flags in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
        mapped = tries(mmap.mmap, a, 4096, flags=flags, prot=mmap.PROT_READ)
        if mapped is not None:
            mapped[0]
            mapped.close()
    os.close(b)
    return a


def names():
    os.makedirs("d/e/f", exist_ok=True)
    os.stat("d/e/f")
    os.stat("d/..")
    os.listdir("d")
    subprocess.run(["ls", "-la", "d"], stdout=subprocess.DEVNULL)
    d = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(d)
    libc.syncfs(d)
    os.fchmod(d, 0o755)
    os.close(d)
    os.statvfs(".")
    tries(os.setxattr, "a", "user.x", b"1")
    tries(os.getxattr, "a", "user.x")
    tries(os.listxattr, "a")
    tries(os.removexattr, "a", "user.x")
    os.access("a", os.R_OK)
    os.chmod("a", 0o600)
    tries(os.mkfifo, "fifo")
    os.symlink("a", "link")
    os.readlink("link")
    tries(os.link, "a", "hard")
    os.rename("hard", "harder")
    os.unlink("harder")
    temporary = tries(os.open, ".", os.O_TMPFILE | os.O_RDWR)
    if temporary is not None:
        os.close(temporary)
    os.chdir("d/e")
    os.getcwd()
    os.chdir("../..")


def watched():
    watch = libc.inotify_init()
    libc.inotify_add_watch(watch, b"a", 0x2)
    os.close(watch)


def processes(a):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    # A program of the mount, and open files and a lost directory that go on in another program.
    shutil.copy("/bin/true", "program")
    os.chmod("program", 0o755)
    subprocess.run(["./program"])
    os.makedirs("lost/below")
    os.set_inheritable(a, True)
    lost = os.open("lost/below", os.O_RDONLY)
    os.set_inheritable(lost, True)
    child = os.fork()
    if child == 0:
        os.chdir("lost/below")
        os.rmdir("../below")
        os.rmdir("../../lost")
        look = "import os, sys; os.pread(int(sys.argv[1]), 10, 0); os.stat('.'); os.listdir(int(sys.argv[2]))"
        os.execvp("python3", ["python3", "-c", look, str(a), str(lost)])
    os.waitpid(child, 0)


def confined(a):
    """With a filter that allows everything."""
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    allow = (ctypes.c_uint64 * 1)(0x7FFF000000000006)
    program = Program(1, ctypes.addressof(allow))
    libc.prctl(38, 1, 0, 0, 0)
    libc.prctl(22, 2, ctypes.byref(program), 0, 0)
    os.pread(a, 10, 0)


os.chdir(sys.argv[1])
a = files()
names()
watched()
processes(a)
for name in os.listdir("."):
    shutil.rmtree(name) if os.path.isdir(name) else os.unlink(name)
child = os.fork()
if child == 0:
    confined(a)
    os._exit(0)
os.waitpid(child, 0)
