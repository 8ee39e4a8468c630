"""Who waits for a change of the tables of mounts is told; the working directory is where something may be mounted."""
import ctypes, os, select, sys

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REC_PRIVATE = 0x4000 | 0x40000


def check(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


check(libc.unshare(CLONE_NEWNS | (0 if os.geteuid() == 0 else CLONE_NEWUSER)))
check(libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None))
os.mkdir("point")
POINT = os.path.realpath("point")


def mount():
    check(libc.mount(b"none", b"point", b"tmpfs", 0, None))


def unmount():
    check(libc.umount2(b"point", 0))


def events(pairs, own):
    return [(number == own, event & ~(select.POLLIN | select.POLLRDNORM)) for number, event in pairs]


def has_point(file):
    file.seek(0)
    return any(POINT in line.split() for line in file)


for path in ["/proc/self/mountinfo", "/proc/mounts", "/proc/self/mounts", "/proc/thread-self/mountinfo"]:
    file = open(path)
    print(path, has_point(file))
    epoll, poll = select.epoll(), select.poll()
    epoll.register(file.fileno(), select.EPOLLPRI | select.EPOLLERR)
    poll.register(file.fileno(), select.POLLPRI)
    print("at first", events(epoll.poll(0), file.fileno()), events(poll.poll(0), file.fileno()))
    mount()
    print("a mount", events(epoll.poll(5), file.fileno()), has_point(file))
    print("told once", events(epoll.poll(0), file.fileno()))
    epoll.modify(file.fileno(), 0)
    unmount()
    print("none", events(poll.poll(5000), file.fileno()), has_point(file))
    try:
        epoll.register(file.fileno())
    except OSError as error:
        print("again", error)
    epoll.unregister(file.fileno())
    try:
        epoll.unregister(file.fileno())
    except OSError as error:
        print("gone", error)
    # A change since the open, and one that comes while somebody waits.
    late = open(path)
    late.read()
    mount()
    epoll.register(late.fileno(), select.EPOLLPRI)
    print("since the open", events(epoll.poll(0), late.fileno()))
    copy = os.dup(late.fileno())
    epoll.register(copy, select.EPOLLPRI)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        unmount()
        os._exit(0)
    # One file, so that the kernel tells it by one of them alone.
    told = {number for number, event in epoll.poll(5)}
    print("while waiting", bool(told), told <= {late.fileno(), copy})
    print("by", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    number = late.fileno()
    late.close()
    os.close(copy)
    mount()
    print("closed", epoll.poll(0))
    unmount()
    other = os.open("/dev/null", os.O_RDONLY)
    print("another file", other == number)
    try:
        epoll.register(other)
    except OSError as error:
        print("another file", error)
    os.close(other)
    epoll.close()
    file.close()
try:
    select.epoll().register(os.open("/proc/self/mountstats", os.O_RDONLY))
except OSError as error:
    print("statistics", error)
