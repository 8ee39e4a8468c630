"""Watches what happens in the working directory, does it, and prints the events: PART [sets] [names]. Events are in the queue when the call that made them returns,
so nothing waits: what was not there was not told. With `sets` the events of each operation are sorted, each one once, and
what tells that directories are read is left out. With `names` what a watch on a directory tells of bytes is left out."""

import ctypes
import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios

libc = ctypes.CDLL(None, use_errno=True)
NAMES = {
    0x1: "ACCESS", 0x2: "MODIFY", 0x4: "ATTRIB", 0x8: "CLOSE_WRITE", 0x10: "CLOSE_NOWRITE", 0x20: "OPEN", 0x40: "MOVED_FROM", 0x80: "MOVED_TO",
    0x100: "CREATE", 0x200: "DELETE", 0x400: "DELETE_SELF", 0x800: "MOVE_SELF", 0x2000: "UNMOUNT", 0x4000: "Q_OVERFLOW", 0x8000: "IGNORED",
    0x40000000: "ISDIR",
}
ALL = 0xFFF
SETS = "sets" in sys.argv[2:]
BYTES = re.compile(r": (ACCESS|MODIFY) .") if "names" in sys.argv[2:] else re.compile("$^")
ACCESS, MODIFY, ATTRIB, CREATE, DELETE = 0x1, 0x2, 0x4, 0x100, 0x200
ONLYDIR, DONT_FOLLOW, EXCL_UNLINK, MASK_CREATE, MASK_ADD, ONESHOT = 0x1000000, 0x2000000, 0x4000000, 0x10000000, 0x20000000, 0x80000000


class Watcher:
    """An inotify descriptor; its watches have names of ours."""

    def __init__(self):
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.names = {}
        self.cookies = {}

    def add(self, path, mask=ALL, name=None):
        wd = libc.inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(mask))
        if wd < 0:
            return os.strerror(ctypes.get_errno())
        known = self.names.get(wd)
        self.names[wd] = known or name or path
        return f"watch of {known}" if known else "watched"

    def remove(self, name):
        wd = next(wd for wd, known in self.names.items() if known == name)
        return libc.inotify_rm_watch(self.fd, wd)

    def events(self):
        """All that is in the queue, as text."""
        told = [event for event in self.queue() if not BYTES.search(event)]
        if not SETS:
            return told
        used = ("OPEN|ISDIR", "ACCESS|ISDIR", "CLOSE_NOWRITE|ISDIR")
        return sorted({event for event in told if not any(word in event for word in used)})

    def queue(self):
        told = []
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                return told
            at = 0
            while at < len(data):
                wd, mask, cookie, length = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + length].rstrip(b"\0").decode()
                at += 16 + length
                if cookie:
                    cookie = self.cookies.setdefault(cookie, len(self.cookies) + 1)
                cookie = 0 if SETS else cookie
                words = "|".join(word for bit, word in NAMES.items() if mask & bit)
                told.append(f"{self.names.get(wd, wd)}: {words} {name}{f' cookie {cookie}' if cookie else ''}".rstrip())


def here(do):
    """In this process."""
    do()


def forked(do):
    """In a child."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            do()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def shell(command):
    """By another program."""
    return lambda: subprocess.run(["/bin/sh", "-c", command], check=True, stdin=subprocess.DEVNULL)


def put(path, data=b"word\n", flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    fd = os.open(path, flags, 0o644)
    os.write(fd, data)
    os.close(fd)


def get(path):
    fd = os.open(path, os.O_RDONLY)
    while os.read(fd, 100):
        pass
    os.close(fd)


def listed(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    with os.scandir(fd) as entries:
        for _ in entries:
            pass
    os.close(fd)


def on(path, flags, do):
    def run():
        fd = os.open(path, flags)
        do(fd)
        os.close(fd)

    return run


def exchange(a, b):
    assert libc.renameat2(-100, a.encode(), -100, b.encode(), 2) == 0


def set_attribute_at(path, name, value):
    """setxattrat(2), which no C library has yet (Linux 6.13)."""
    text = ctypes.create_string_buffer(value)
    arguments = (ctypes.c_uint64 * 2)(ctypes.addressof(text), len(value))
    libc.syscall(463, -100, path, 0, name, ctypes.byref(arguments), ctypes.c_size_t(16))


def operations():
    """What is done, in order, and its name."""
    times = (1_000_000_000, 1_100_000_000)
    return [
        ("create", lambda: put("d/new")),
        ("create exclusively", lambda: os.close(os.open("d/excl", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))),
        ("open there", lambda: put("d/new", b"more")),
        ("read", lambda: get("d/new")),
        ("read of an empty file", lambda: get("d/excl")),
        ("append", lambda: put("d/file", b"x" * 5000, os.O_WRONLY | os.O_APPEND)),
        ("open for both", on("d/file", os.O_RDWR, lambda fd: (os.pwrite(fd, b"y", 3), os.pread(fd, 3, 3)))),
        ("vectors", on("d/file", os.O_RDWR, lambda fd: (os.writev(fd, [b"a", b"b"]), os.readv(fd, [bytearray(4)])))),
        ("a seek tells nothing", on("d/file", os.O_RDONLY, lambda fd: os.lseek(fd, 5, 0))),
        ("O_PATH tells nothing", on("d/file", os.O_PATH, os.fstat)),
        ("dup", on("d/file", os.O_RDONLY, lambda fd: os.close(os.dup(fd)))),
        ("sendfile", on("d/file", os.O_RDONLY, lambda fd: put_from(fd))),
        ("splice", on("d/file", os.O_RDWR, splice)),
        ("mkdir", lambda: os.mkdir("d/made")),
        ("symlink", lambda: os.symlink("file", "d/link")),
        ("fifo", lambda: os.mkfifo("d/fifo")),
        ("link", lambda: os.link("d/file", "d/hard")),
        ("link out", lambda: os.link("d/file", "other/hard")),
        ("by another name", lambda: put("other/hard", b"z", os.O_WRONLY)),
        ("by the other name here", lambda: put("d/hard", b"z", os.O_WRONLY)),
        ("chmod", lambda: os.chmod("d/file", 0o600)),
        ("fchmod", on("d/file", os.O_RDONLY, lambda fd: os.fchmod(fd, 0o644))),
        ("setxattr", lambda: libc.setxattr(b"d/file", b"user.one", b"1", 1, 0)),
        ("setxattrat", lambda: set_attribute_at(b"d/file", b"user.two", b"2")),
        ("chmod of a directory", lambda: os.chmod("d/sub", 0o700)),
        ("chmod of the watched directory", lambda: os.chmod("d", 0o700)),
        ("chown", lambda: os.chown("d/file", os.getuid(), os.getgid())),
        ("utime", lambda: os.utime("d/file", times)),
        ("futimens", on("d/file", os.O_RDONLY, lambda fd: os.utime(fd, times))),
        ("access time only", lambda: subtimes("d/file", (5, 0), (0, 0x3FFFFFFE))),
        ("modification time only", lambda: subtimes("d/file", (0, 0x3FFFFFFE), (5, 0))),
        ("truncate", lambda: os.truncate("d/file", 10)),
        ("ftruncate", on("d/file", os.O_WRONLY, lambda fd: os.ftruncate(fd, 20))),
        ("fallocate", on("d/file", os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 50))),
        ("stat tells nothing", lambda: (os.stat("d/file"), os.access("d/file", 4), os.readlink("d/link"), os.lstat("d/link"))),
        ("list", lambda: listed("d/sub")),
        ("list the watched directory", lambda: listed("d")),
        ("rename", lambda: os.rename("d/new", "d/newer")),
        ("rename of a watched file", lambda: os.rename("d/file", "d/renamed")),
        ("its new name", lambda: put("d/renamed", b"n", os.O_WRONLY)),
        ("rename back", lambda: os.rename("d/renamed", "d/file")),
        ("move out", lambda: os.rename("d/newer", "other/newer")),
        ("out there", lambda: put("other/newer")),
        ("move in", lambda: os.rename("other/newer", "d/back")),
        ("move in over a file", lambda: (put("other/over"), os.rename("other/over", "d/back"))),
        ("move a directory", lambda: os.rename("d/made", "d/moved")),
        ("move a directory out and in", lambda: (os.rename("d/moved", "other/moved"), os.rename("other/moved", "d/moved"))),
        ("exchange", lambda: exchange("d/back", "d/excl")),
        ("exchange with another directory", lambda: exchange("d/back", "other/hard")),
        ("rename to itself", lambda: os.rename("d/back", "d/back")),
        ("rename open", on("d/excl", os.O_RDWR, lambda fd: (os.rename("d/excl", "d/opened"), os.write(fd, b"1")))),
        ("remove open", on("d/opened", os.O_RDWR, lambda fd: (os.unlink("d/opened"), os.write(fd, b"1")))),
        ("remove one of two", lambda: os.unlink("d/hard")),
        ("remove", lambda: os.unlink("d/back")),
        ("remove a link and a fifo", lambda: (os.unlink("d/link"), os.unlink("d/fifo"))),
        ("rmdir", lambda: os.rmdir("d/moved")),
        ("in a directory that is watched too", lambda: put("d/sub/deep")),
        ("remove from it", lambda: os.unlink("d/sub/deep")),
        ("move it", lambda: os.rename("d/sub", "d/sub2")),
        ("in it, moved", lambda: put("d/sub2/deep")),
        ("remove from it, moved", lambda: os.unlink("d/sub2/deep")),
        ("rmdir of it", lambda: os.rmdir("d/sub2")),
        ("remove a watched file, open", on("d/self", os.O_RDONLY, lambda fd: os.unlink("d/self"))),
        ("remove a watched file", lambda: os.unlink("d/gone")),
        ("replace a watched file", lambda: (put("other/x"), os.rename("other/x", "d/replaced"))),
        ("remove the other watched file", lambda: (os.unlink("d/file"), os.unlink("other/back") if os.path.exists("other/back") else None)),
        ("again by the same name", lambda: put("d/file")),
        ("failing calls tell nothing", failing),
    ]


def failing():
    for call in (
        lambda: os.mkdir("d/file"),
        lambda: os.unlink("d/missing"),
        lambda: os.rmdir("d/file"),
        lambda: os.open("d/missing", os.O_RDONLY),
        lambda: os.open("d/file", os.O_CREAT | os.O_EXCL),
        lambda: os.rename("d/missing", "d/x"),
        lambda: os.link("d/file", "d/replaced"),
        lambda: os.chmod("d/missing", 0o600),
    ):
        try:
            call()
        except OSError as error:
            print(" ", os.strerror(error.errno))


def put_from(fd):
    out = os.open("d/copy", os.O_WRONLY | os.O_CREAT, 0o644)
    os.sendfile(out, fd, 0, 100)
    os.close(out)


def splice(fd):
    read, write = os.pipe()
    assert os.splice(fd, write, 3, offset_src=0) == 3
    assert os.splice(read, fd, 3, offset_dst=9) == 3
    os.close(read)
    os.close(write)


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def subtimes(path, access, modification):
    both = (Timespec * 2)(Timespec(*access), Timespec(*modification))
    assert libc.utimensat(-100, path.encode(), both, 0) == 0


def world():
    for directory in ("d", "d/sub", "other"):
        os.mkdir(directory)
    for name in ("d/file", "d/self", "d/gone", "d/replaced"):
        put(name, b"bytes\n")


def watched():
    """The usual watches."""
    watcher = Watcher()
    for path in ("d", "d/sub", "d/file", "d/self", "d/gone", "d/replaced"):
        print(path, watcher.add(path))
    watcher.events()
    return watcher


def perform(how):
    """Each operation, and what was told of it."""
    world()
    watcher = watched()
    for name, do in operations():
        print(f"{name}:", flush=True)
        how(do)
        for event in watcher.events():
            print(" ", event)


def programs():
    """What other programs do."""
    world()
    watcher = watched()
    for command in (
        "echo text > d/shell",
        "cat d/shell > /dev/null",
        "echo more >> d/shell; cat < d/shell > d/copy",
        "cat d/file d/shell > d/copy",
        "(echo one; echo two) > d/both",
        "touch d/touched; chmod 600 d/touched",
        "mkdir d/m; rmdir d/m",
        "cp d/shell d/cp",
        "mv d/cp d/mv; ln -s mv d/ln; ln d/mv d/hard",
        "mv d/mv other/; mv other/mv d/sub/",
        "rm -f d/hard d/ln d/touched d/both",
        "ls d/sub > /dev/null",
        "sed -i s/text/TEXT/ d/shell",
        "rm -rf d/sub",
    ):
        print(command, flush=True)
        shell(command)()
        told = watcher.events()
        # sed's own temporary name is a random one.
        for event in told:
            print(" ", " ".join("sedXXX" if word.startswith("sed") else word for word in event.split(" ")))


def rules():
    """Flags of inotify_add_watch, its errors, and what can be done with the descriptor."""
    world()
    os.symlink("file", "d/link")
    os.symlink("d", "link")
    watcher = Watcher()
    tell = lambda: [print(" ", event) for event in watcher.events()]
    print("missing", watcher.add("missing"))
    print("empty", watcher.add(""))
    print("no directory", watcher.add("d/file", ALL | ONLYDIR))
    print("through a file", watcher.add("d/file/x"))
    print("no event", watcher.add("d", 0))
    print("both", watcher.add("d", ALL | MASK_ADD | MASK_CREATE))
    print("link", watcher.add("link", CREATE | ONLYDIR, "linked"))
    print("the link itself", watcher.add("link", DELETE | DONT_FOLLOW | ONLYDIR))
    print("the directory", watcher.add("d", CREATE | MASK_CREATE))
    put("d/one"), os.unlink("d/one"), tell()
    print("one bit more", watcher.add("d", DELETE | MASK_ADD))
    put("d/one"), os.unlink("d/one"), tell()
    print("other bits", watcher.add("d", ATTRIB))
    put("d/one"), os.chmod("d/one", 0o600), os.unlink("d/one"), tell()
    print("removed", watcher.remove("linked"))
    put("d/one"), tell()
    watcher = Watcher()
    print("once", watcher.add("d", CREATE | ONESHOT))
    put("d/a"), put("d/b"), tell()
    print("twice", watcher.add("d", CREATE | ONESHOT))
    put("d/c"), put("d/e"), tell()
    watcher = Watcher()
    print("link", watcher.add("d/link", ALL | DONT_FOLLOW))
    print("file", watcher.add("d/file", MODIFY))
    put("d/link", b"x", os.O_WRONLY), os.unlink("d/link"), tell()
    watcher = Watcher()
    print("removed files", watcher.add("d", ALL | EXCL_UNLINK))
    fd = os.open("d/a", os.O_RDWR)
    os.unlink("d/a"), os.write(fd, b"x"), os.close(fd), tell()
    second = Watcher()
    print("two", second.add("d", CREATE), second.add("d/file", ATTRIB))
    put("d/two"), os.chmod("d/file", 0o640), tell()
    print([event for event in second.events()])
    waiting = struct.unpack("i", fcntl.ioctl(watcher.fd, termios.FIONREAD, b"\0" * 4))[0]
    poll, epoll = select.poll(), select.epoll()
    poll.register(watcher.fd), epoll.register(watcher.fd, select.EPOLLIN)
    print("nothing", waiting, poll.poll(0) == [], epoll.poll(0) == [], select.select([watcher.fd], [], [], 0)[0] == [])
    put("d/poll")
    waiting = struct.unpack("i", fcntl.ioctl(watcher.fd, termios.FIONREAD, b"\0" * 4))[0]
    print("ready", waiting, poll.poll(0) != [], epoll.poll(0) != [], select.select([watcher.fd], [], [], 0)[0] != [])
    try:
        os.read(watcher.fd, 10)
    except OSError as error:
        print("too small", os.strerror(error.errno))
    tell()
    forked(lambda: (put("d/child"), [print("  child", event) for event in watcher.events()], sys.stdout.flush()))
    print("all read by the child")
    tell()
    os.close(watcher.fd)
    put("d/unheard")
    print("closed")


def late():
    """Files that were open before anybody watched. Whether their opening is told is left out."""
    world()
    kept = [os.open(f"d/{name}", flags) for name, flags in (("file", os.O_RDWR), ("self", os.O_RDONLY), ("gone", os.O_WRONLY), ("sub", os.O_RDONLY))]
    inherited = os.open("d/replaced", os.O_WRONLY)
    os.set_inheritable(inherited, True)
    watcher = watched()
    for what, do in (
        ("write", lambda: os.write(kept[0], b"x")),
        ("read", lambda: os.read(kept[1], 3)),
        ("attributes", lambda: os.fchmod(kept[2], 0o600)),
        ("listing", lambda: os.listdir(kept[3])),
        ("in a child", lambda: forked(lambda: os.write(kept[0], b"y"))),
        ("by another program", lambda: subprocess.run(["/bin/sh", "-c", f"echo z >&{inherited}"], check=True, pass_fds=[inherited])),
    ):
        print(what)
        do()
        for event in watcher.events():
            if "OPEN" not in event and "CLOSE" not in event:
                print(" ", event)
    # Nobody else ever had these.
    for fd in (os.open("other/new", os.O_WRONLY | os.O_CREAT), os.open("other", os.O_RDONLY)):
        watcher = Watcher()
        print(watcher.add("other"), watcher.add("."), watcher.add(f"/proc/self/fd/{fd}"))
        os.close(fd)
        for event in watcher.events():
            if "OPEN" not in event:
                print(" ", event.replace(str(fd), "N"))


def crowd():
    """Many processes change one directory. What is told of each name comes in order; between names anything goes."""
    world()
    watcher = Watcher()
    watcher.add("d")

    def work(who):
        for i in range(100):
            name = f"d/{who}.{i}"
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            os.rename(name, name + ".moved")
            os.unlink(name + ".moved")

    children = []
    for who in range(4):
        child = os.fork()
        if child == 0:
            try:
                work(who)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    told = {}
    for event in watcher.queue():
        words, name = event.split(" ")[1:3]
        told.setdefault(name.removesuffix(".moved"), []).append(words)
    print(len(told), set(map(tuple, told.values())))


def spawned():
    """What a child opens between vfork and exec."""
    world()
    watcher = watched()
    actions = [(os.POSIX_SPAWN_OPEN, 1, "d/spawned", os.O_WRONLY | os.O_CREAT, 0o644)]
    child = os.posix_spawn("/bin/echo", ["echo", "text"], os.environ, file_actions=actions)
    print(os.waitpid(child, 0)[1], *watcher.events(), sep="\n ")
    put("d/spawned", b"", os.O_WRONLY)
    print(*watcher.events(), sep="\n ")


def immutable():
    """A tree that nobody changes."""
    watcher = Watcher()
    print(watcher.add("."), watcher.add("dir"), watcher.add("hello.txt"))
    for name, do in (("read", lambda: get("hello.txt")), ("list", lambda: listed("dir")), ("by another", shell("cat hello.txt > /dev/null"))):
        do()
        print(name, *watcher.events(), sep="\n ")
    watcher = Watcher()
    print(watcher.add("dir", CREATE | DELETE), watcher.add("hello.txt", MODIFY))
    get("hello.txt")
    print(watcher.events())
    # So many names that who waits for changes only gets no copy of them. Who comes later gets one,
    # and the other is not told of that.
    silent = Watcher()
    print(silent.add("many", CREATE | DELETE))
    for _ in range(2):
        watcher = Watcher()
        print(watcher.add("many"))
        get("many/f0001")
        print(watcher.events(), silent.events())


def other_users():
    """What may be watched, by its mode."""
    world()
    watcher = Watcher()
    for mode in (0, 0o100, 0o400, 0o200):
        os.chmod("d/sub", mode), os.chmod("d/file", mode)
        print(oct(mode), watcher.add("d/sub", CREATE), watcher.add("d/file", CREATE))


PARTS = {
    "here": lambda: perform(here),
    "forked": lambda: perform(forked),
    "programs": programs,
    "rules": rules,
    "late": late,
    "crowd": crowd,
    "spawned": spawned,
    "immutable": immutable,
    "users": other_users,
}
PARTS[sys.argv[1]]()
