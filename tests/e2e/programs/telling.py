"""Kernel mounts of a driver that does what it is told (tests/e2e/src/bin/telling.rs): telling.py CASE DRIVER TARGET [WORD...]

Everything is believed for ever there, so that each LOOKUP and GETATTR is the consequence of a notification. That a notification was sent is known by another one: who
waits for the file `sync` is woken after all that was told before. Nothing here depends on time."""

import ctypes
import fcntl
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading

IN, PRI, OUT, ERR = select.POLLIN, select.POLLPRI, select.POLLOUT, select.POLLERR
IN_DELETE_SELF, IN_IGNORED = 0x400, 0x8000
libc = ctypes.CDLL(None, use_errno=True)


class Served:
    """A driver that serves a run already, and hears and says by two FIFOs."""

    def __init__(self, path):
        self.stdin, self.stdout = open(path + ".in", "w"), open(path + ".out")


class Driver:
    def __init__(self, driver, target, words=()):
        self.target, self.words = target, words
        if driver.startswith("@"):
            self.process = Served(driver[1:])
        else:
            self.process = subprocess.Popen([driver, *words, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        mounted, minor = self.process.stdout.readline().split()
        assert mounted == "mounted"
        self.minor = int(minor)
        self("file sync")
        self.syncs = os.open(self.path("sync"), os.O_RDONLY)
        self.sync = select.epoll()
        self.sync.register(self.syncs, select.EPOLLIN)

    def __call__(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer != "", "the driver is gone"
        assert not answer.startswith("error"), (command, answer)
        return answer

    def path(self, name):
        return os.path.join(self.target, name)

    def open(self, name):
        return os.open(self.path(name), os.O_RDWR)

    def told(self):
        """Returns when the kernel was told of all that was said before."""
        self("quiet sync 0")
        assert self.sync.poll(0) == []
        self("ready sync %d" % IN)
        assert self.sync.poll() == [(self.syncs, IN)]

    def tell(self, *changes):
        for change in changes:
            self("tell " + change)
        self.told()
        self.counts()

    def counts(self, *kinds):
        """What was asked since the last time, of these kinds or all."""
        found = dict(word.rsplit("=", 1) for word in self("counts").split())
        wanted = lambda what: not what.endswith(":sync") and (not kinds or what.split(":")[0] in kinds)
        return {what: int(count) for what, count in found.items() if wanted(what)}

    def end(self):
        self.sync.close()
        os.close(self.syncs)
        if isinstance(self.process, Served):
            return
        subprocess.run(["umount", self.target], check=True)
        assert self.process.wait() == 0


class Waiting(threading.Thread):
    """Runs `call` beside the others."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.result = call, None
        self.start()

    def run(self):
        self.result = self.call()

    def end(self):
        self.join()
        return self.result


def by_poll(fd, events):
    list_ = select.poll()
    list_.register(fd, events)
    return [found for _, found in list_.poll()]


def by_select(fd, events):
    wanted = [[fd] if events & bit else [] for bit in (IN, OUT, PRI)]
    found = select.select(*wanted)
    return [sum(bit for bit, some in zip((IN, OUT, PRI), found) if some)]


def by_epoll(fd, events):
    with select.epoll() as list_:
        list_.register(fd, events)
        return [found for _, found in list_.poll()]


def case_ready(driver):
    """Who waits waits until the driver says so: asked once before and once after, in each way."""
    driver("file a")
    fd = driver.open("a")
    for way in (by_poll, by_select, by_epoll):
        for bits in (IN, OUT, IN | OUT):
            driver("unready a")
            driver.counts()
            who = Waiting(lambda: way(fd, bits))
            driver("waited a")
            assert who.is_alive()
            driver("ready a %d" % bits)
            assert who.end() == [bits], (way, bits, who.result)
            counts = driver.counts("poll")
            assert counts == {"poll:a": 2}, (way, bits, counts)
            assert way(fd, IN | OUT) == [bits]
    os.close(fd)


def case_other_bits(driver):
    """What nobody waits for ends no wait, though it is told."""
    driver("file a")
    fd = driver.open("a")
    for way in (by_poll, by_select, by_epoll):
        driver("unready a")
        driver.counts()
        who = Waiting(lambda: way(fd, IN))
        driver("waited a")
        driver("ready a %d" % OUT)
        # It has asked again, and waits again.
        driver("waited a")
        assert who.is_alive()
        driver("ready a %d" % (IN | OUT))
        assert who.end() == [IN]
        assert driver.counts("poll") == {"poll:a": 3}
    os.close(fd)


def case_several(driver):
    """Several who wait: for one open file, for several of one file, for another file, in another process."""
    driver("file a")
    driver("file b")
    one, two, other = driver.open("a"), driver.open("a"), driver.open("b")
    waiting = [Waiting(lambda fd=fd: by_poll(fd, IN)) for fd in (one, two)]
    driver("waited a 2")
    apart = Waiting(lambda: by_poll(other, IN))
    driver("waited b")
    child = os.fork()
    if child == 0:
        os._exit(by_poll(two, IN)[0])
    # The child shares the open file: only a further question tells that it waits.
    asked = 0
    while asked < 4:
        asked += sum(driver.counts("poll").values())
    driver("ready a %d" % IN)
    assert [who.end() for who in waiting] == [[IN], [IN]]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == IN
    driver.told()
    assert apart.is_alive() and "poll:b" not in driver.counts("poll")
    # Of several descriptors the one that is ready.
    all_ = Waiting(lambda: select.select([one, two, other], [], []))
    assert all_.end() == ([one, two], [], [])
    driver("ready b %d" % IN)
    assert apart.end() == [IN]
    for fd in one, two, other:
        os.close(fd)


def case_not_asked(driver):
    """A file whose poll fails, even with ENOSYS, has an error; the others are asked as before."""
    driver("file unasked")
    driver("file a")
    unasked, fd = driver.open("unasked"), driver.open("a")
    driver("unready a")
    driver.counts()
    for _ in range(2):
        assert by_poll(unasked, IN) == [ERR]
    who = Waiting(lambda: by_poll(fd, IN))
    driver("waited a")
    driver("ready a %d" % IN)
    assert who.end() == [IN]
    assert driver.counts("poll") == {"poll:a": 2}
    for fd in fd, unasked:
        os.close(fd)


def case_edge(driver):
    """epoll(7), edge-triggered: each time that the driver tells is one event. What is closed is told of no more."""
    driver("file a")
    fd = driver.open("a")
    with select.epoll() as list_:
        list_.register(fd, select.EPOLLIN | select.EPOLLET)
        for _ in range(5):
            driver("ready a %d" % IN)
            assert list_.poll() == [(fd, IN)]
            assert list_.poll(0) == []
        os.close(fd)
        driver("ready a %d" % IN)
        driver.told()
        assert list_.poll(0) == []


def case_unready(driver):
    """The ways of waiting for files, of which one is ready."""
    driver("file a")
    driver("file b")
    driver("ready b %d" % IN)
    subprocess.run([driver.words[0], driver.path("a"), driver.path("b")], check=True)


def killed(driver, with_guardian):
    """The driver's process is killed, perhaps with its guardian, which hears nothing of it."""
    fifo = os.stat(driver.process.stdin.fileno())

    def is_it(number):
        try:
            return os.path.samestat(os.stat("/proc/%s/fd/0" % number), fifo)
        except OSError:
            return False

    process, = (int(number) for number in os.listdir("/proc") if number.isdigit() and is_it(number))
    guardian = process
    while open("/proc/%d/comm" % guardian).read() != "culvert-fuse\n":
        guardian = int(open("/proc/%d/stat" % guardian).read().rpartition(")")[2].split()[1])
    if not with_guardian:
        os.kill(process, signal.SIGKILL)
        return
    os.kill(guardian, signal.SIGSTOP)
    kept = (os.readlink("/proc/%d/fd/%s" % (guardian, fd)) for fd in os.listdir("/proc/%d/fd" % guardian))
    directory, = {os.path.dirname(path) for path in kept if path.endswith("/guardian")}
    os.kill(process, signal.SIGKILL)
    os.kill(guardian, signal.SIGKILL)
    # As the next run of the same user does that finds it.
    shutil.rmtree(directory)


def case_gone(driver, with_guardian=False):
    """The server is killed: who waits for its files is told of an error, and who waits again, in all ways."""
    driver("file a")
    fd = driver.open("a")
    edge, once = select.epoll(), select.epoll()
    edge.register(fd, select.EPOLLIN | select.EPOLLET)
    once.register(fd, select.EPOLLIN | select.EPOLLONESHOT)
    ways = [by_poll, by_select, by_epoll] + [lambda *_, of=of: [found for _, found in of.poll()] for of in (edge, once)]
    waiting = [Waiting(lambda way=way: way(fd, IN)) for way in ways]
    driver("waited a")
    asked = 0
    while asked < len(ways):
        asked += sum(driver.counts("poll").values())
    killed(driver, with_guardian)
    # select(2) says of an error that it can be read.
    assert [who.end() for who in waiting] == [[ERR], [IN], [ERR], [ERR], [ERR]], [who.result for who in waiting]
    assert [way(fd, IN) for way in (by_poll, by_select, by_epoll)] == [[ERR], [IN], [ERR]]
    assert once.poll(0) == []
    sys.stdout.flush()
    os._exit(0)


def case_gone_with_its_guardian(driver):
    """Both are killed, so that nobody tells."""
    case_gone(driver, True)


def case_always_ready(driver):
    """Without poll, or of a driver that says nothing of it: at once, and the driver is not asked."""
    fd = os.open(driver.path("a"), os.O_RDWR)
    for way in (by_poll, by_select, by_epoll):
        assert way(fd, IN | OUT) == [IN | OUT]
    os.close(fd)


def watches(path, mask):
    fd = libc.inotify_init1(os.O_NONBLOCK)
    assert fd >= 0 and libc.inotify_add_watch(fd, os.fsencode(path), mask) >= 0
    return fd


def events(fd):
    """The events, as pairs of mask and name."""
    found = []
    try:
        while data := os.read(fd, 4096):
            while data:
                _, mask, _, length = struct.unpack_from("iIII", data)
                found.append((mask, data[16:16 + length].rstrip(b"\0").decode()))
                data = data[16 + length:]
    except BlockingIOError:
        return found


def case_name(driver):
    """A name that means something else: looked up again, once, and only that one."""
    driver("file a one")
    driver("file b other")
    stat = lambda name: os.stat(driver.path(name))
    first = stat("a").st_ino, stat("b").st_ino
    assert not os.path.exists(driver.path("none"))
    driver.counts()
    driver("remove a")
    driver("file a second")
    assert (stat("a").st_ino, stat("b").st_ino) == first and driver.counts("lookup", "attributes") == {}
    driver.tell("name a")
    assert stat("a").st_size == 6 and stat("b").st_size == 5
    counts = driver.counts("lookup", "attributes")
    # The directory's own, too: its times and links are not what they were.
    assert counts == {"attributes:": 1, "lookup:a": 1}, counts
    driver("file none x")
    assert not os.path.exists(driver.path("none"))
    driver.tell("name none")
    assert stat("none").st_size == 1 and stat("a").st_ino != first[0]
    counts = driver.counts("lookup", "attributes")
    assert counts == {"attributes:": 1, "lookup:none": 1}, counts


def mounted_on(path):
    with open("/proc/self/mountinfo") as lines:
        return any(line.split()[4] == path for line in lines)


def case_doubtful(driver):
    """A name in doubt is looked up again, once; what is mounted there stays, where it would end with a name that means something else."""
    driver("directory d")
    driver("file d/f x")
    os.stat(driver.path("d/f"))
    driver.counts()
    driver.tell("doubtful d/f")
    os.stat(driver.path("d/f"))
    os.stat(driver.path("d/f"))
    counts = driver.counts("lookup", "attributes")
    assert counts == {"attributes:d": 1, "lookup:f": 1}, counts
    for change, stays in ("doubtful d", True), ("name d", False):
        subprocess.run(["mount", "-t", "tmpfs", "telling", driver.path("d")], check=True)
        driver.tell(change)
        assert mounted_on(driver.path("d")) == stays, change
        if stays:
            subprocess.run(["umount", driver.path("d")], check=True)


def case_removed(driver):
    """A name that was removed: the file has no link more for who has it open, without a question; who watches the file is told of its end."""
    driver("directory d")
    for name in "held", "loose", "renamed", "other":
        driver("file d/%s x" % name)
        os.stat(driver.path("d/" + name))
    held, renamed = driver.open("d/held"), driver.open("d/renamed")
    watched = {name: watches(driver.path("d/" + name), IN_DELETE_SELF) for name in ("held", "loose", "renamed")}
    driver("remove d/held")
    driver("remove d/loose")
    driver.tell("removed d/held", "removed d/loose", "name d/renamed")
    # What lost a name may have others.
    assert (os.fstat(held).st_nlink, os.fstat(renamed).st_nlink) == (0, 1)
    assert driver.counts("attributes") == {}
    assert [events(watched[name]) for name in ("held", "loose", "renamed")] == [[], [(IN_DELETE_SELF, ""), (IN_IGNORED, "")], []]
    os.close(held)
    assert events(watched["held"]) == [(IN_DELETE_SELF, ""), (IN_IGNORED, "")]
    os.close(renamed)
    assert events(watched["renamed"]) == []
    assert not any(os.path.exists(driver.path("d/" + name)) for name in ("held", "loose"))
    assert os.path.exists(driver.path("d/renamed")) and os.path.exists(driver.path("d/other"))
    counts = driver.counts("lookup", "attributes")
    assert counts == {"attributes:d": 1, "lookup:held": 1, "lookup:loose": 1, "lookup:renamed": 1}, counts
    # A directory that is not empty here is dropped as far as it can be, and is another one when it
    # comes again.
    os.stat(driver.path("d/other"))
    driver("remove d")
    driver.tell("removed d")
    assert not os.path.exists(driver.path("d"))
    for fd in watched.values():
        os.close(fd)


def case_everything(driver):
    """Every name is looked up again, once; what is open is not asked for."""
    driver("directory d")
    names = ["d/f", "d/g", "h"]
    for name in names:
        driver("file %s x" % name)
    fd = driver.open("h")
    for name in names:
        os.stat(driver.path(name))
    driver.counts()
    for name in names:
        os.stat(driver.path(name))
    assert driver.counts("lookup", "attributes") == {}
    driver.tell("everything")
    for _ in range(2):
        for name in names:
            os.stat(driver.path(name))
    assert driver.counts("lookup", "attributes") == {"lookup:d": 1, "lookup:f": 1, "lookup:g": 1, "lookup:h": 1}
    assert os.fstat(fd).st_size == 1 and driver.counts("lookup", "attributes") == {}
    os.close(fd)


def case_content(driver):
    """Attributes are asked for again, and pages where the content has changed."""
    driver("file a one")
    fd = driver.open("a")
    look = lambda: (os.fstat(fd).st_size, os.pread(fd, 10, 0))
    # Twice: a READ makes the kernel ask for the time of access once more.
    assert look() == look() == (3, b"one")
    driver.counts()
    driver("file a two")
    assert look() == (3, b"one") and driver.counts() == {}
    driver.tell("attributes a")
    assert look() == (3, b"one") and driver.counts() == {"attributes:a": 1}
    driver.tell("content a")
    assert look() == (3, b"two") and driver.counts() == {"attributes:a": 1, "read:a": 1}
    driver("file a longer")
    driver.tell("content a")
    assert look() == (6, b"longer")
    os.close(fd)


def case_unneeded(driver):
    """A node that nobody uses is forgotten; one that is open is not."""
    driver("file used x")
    driver("file unused x")
    driver("file last x")
    fd = driver.open("used")
    for name in "unused", "last":
        os.stat(driver.path(name))
    for name in "used", "unused", "last":
        driver("tell unneeded " + name)
    driver("asked forget:unused")
    driver("asked forget:last")
    assert "forget:used" not in driver.counts("forget")
    assert os.fstat(fd).st_size == 1
    os.stat(driver.path("unused"))
    assert driver.counts("lookup") == {"lookup:unused": 1}
    os.close(fd)


def case_locks(driver):
    """A driver that keeps locks is asked for each, and told at close."""
    driver("file a")
    fd = driver.open("a")
    driver.counts()
    fcntl.lockf(fd, fcntl.LOCK_EX)
    assert driver.counts("set_lock") == {"set_lock:a": 1}
    F_GETLK = 5
    fcntl.fcntl(fd, F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0))
    assert driver.counts("get_lock") == {"get_lock:a": 1}
    fcntl.flock(fd, fcntl.LOCK_SH)
    assert driver.counts("flock") == {"flock:a": 1}
    os.close(fd)
    assert "set_lock:a" in driver.counts("set_lock")


def main():
    case, binary, target, *words = sys.argv[1:]
    # Kernels that do not know the message yet: the server leaves it out, or says more.
    since = {"doubtful": 38, "everything": 44, "unneeded": 45}.get(case, 0)
    if case == "always_ready":
        # Without the wait for `sync`, which would find it ready always.
        process = subprocess.Popen([binary, *words, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline().startswith("mounted")
        driver = Driver.__new__(Driver)
        driver.process, driver.target = process, target
        driver("file a")
        case_always_ready(driver)
        assert driver.counts("poll") == {}
        subprocess.run(["umount", target], check=True)
        assert process.wait() == 0
        return
    driver = Driver(binary, target, words)
    if driver.minor < since:
        print("not tested: the kernel speaks 7.%d, this wants 7.%d" % (driver.minor, since))
    else:
        globals()["case_" + case](driver)
    driver.end()


main()
