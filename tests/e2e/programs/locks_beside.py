"""Locks of processes that reach one file by two paths. Usage: locks_beside.py ONE OTHER [SERVER]

Processes take turns by pipes. What waits is let wait until it sleeps in the call. With SERVER, a command that ends the server of a mount, it is run in between: what is held stays held.
"""
import errno, fcntl, os, signal, struct, subprocess, sys

ONE, OTHER = sys.argv[1:3]
SERVER = sys.argv[3] if len(sys.argv) > 3 else None
SETLK, GETLK = {"posix": 6, "ofd": 37}, {"posix": 5, "ofd": 36}
FCNTL, FLOCK = 72, 73
TYPES = {"shared": fcntl.F_RDLCK, "exclusive": fcntl.F_WRLCK, "none": fcntl.F_UNLCK}


class Interrupted(Exception):
    pass


def interrupted(*_):
    raise Interrupted


def pack(kind, start, length):
    return struct.pack("hh4xqqi4x", TYPES[kind], os.SEEK_SET, start, length, 0)


def act(files, words):
    """What a process does when it is told `words`."""
    what, *rest = words
    if what == "open":
        name, path, how = rest
        files[name] = os.open(path, os.O_CREAT | {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}[how], 0o666)
        return "open"
    if what == "close":
        os.close(files.pop(rest[0]))
        return "closed"
    name, by, kind, wait, start, length = rest[0], rest[1], rest[2], rest[3] == "wait", int(rest[4]), int(rest[5])
    if what == "ask":
        found = struct.unpack("hh4xqqi4x", fcntl.fcntl(files[name], GETLK[by], pack(kind, start, length)))
        return "free" if found[0] == fcntl.F_UNLCK else f"type {found[0]} from {found[2]} length {found[3]}"
    if by == "flock":
        operation = {"shared": fcntl.LOCK_SH, "exclusive": fcntl.LOCK_EX, "none": fcntl.LOCK_UN}[kind]
        fcntl.flock(files[name], operation | (0 if wait else fcntl.LOCK_NB))
    else:
        fcntl.fcntl(files[name], SETLK[by] + wait, pack(kind, start, length))
    return "done"


class Process:
    def __init__(self, place):
        told, self.tell = os.pipe()
        self.heard, say = os.pipe()
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid:
            os.close(told), os.close(say)
            self.answers = os.fdopen(self.heard)
            return
        os.close(self.tell)
        signal.signal(signal.SIGUSR1, interrupted)
        files = {}
        for line in os.fdopen(told):
            words = [word.replace("@", place) for word in line.split()]
            try:
                answer = act(files, words)
            except OSError as error:
                answer = "held" if error.errno in (errno.EAGAIN, errno.EACCES) else errno.errorcode[error.errno]
            except Interrupted:
                answer = "interrupted"
            os.write(say, (answer + "\n").encode())
        os._exit(0)

    def begin(self, *words):
        os.write(self.tell, (" ".join(map(str, words)) + "\n").encode())

    def end(self):
        return self.answers.readline().strip()

    def do(self, *words):
        self.begin(*words)
        return self.end()

    def asleep(self):
        """Returns when the process sleeps in a call that waits for a lock."""
        while True:
            with open(f"/proc/{self.pid}/syscall") as file:
                call = file.read().split()[0]
            with open(f"/proc/{self.pid}/stat") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
            if state == "S" and call in (str(FCNTL), str(FLOCK)):
                return
            os.sched_yield()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def show(*what):
    print(*what, flush=True)


def server_ends():
    if SERVER:
        subprocess.run(SERVER, shell=True, check=True)


for by in ("posix", "ofd", "flock"):
    one, two, other = Process(ONE), Process(ONE), Process(OTHER)
    for process in (one, two, other):
        process.do("open", "f", f"@/{by}", "rw")
    lock = lambda process, kind, wait, start=0, length=10, file="f": process.do("lock", file, by, kind, wait, start, length)
    show(by, "taken", lock(one, "exclusive", "now"), lock(other, "exclusive", "now"), lock(other, "shared", "now"), lock(two, "shared", "now"))
    server_ends()
    show(by, "still", lock(other, "exclusive", "now"), lock(two, "shared", "now"), lock(one, "shared", "now"), lock(other, "shared", "now"), lock(other, "none", "now"))
    if by != "flock":
        show(by, "parts", lock(other, "exclusive", "now", 20, 5), lock(one, "exclusive", "now", 30, 0), lock(two, "exclusive", "now", 15, 6), lock(two, "exclusive", "now", 15, 5))
        for process in (one, two, other):
            show(by, "asked", *(process.do("ask", "f", by, "exclusive", "now", *part) for part in ((0, 1), (12, 1), (16, 1), (21, 100), (29, 1), (1000, 0))))
        show(by, "gone", *(lock(process, "none", "now", 0, 0) for process in (two, other)))
        lock(one, "none", "now", 0, 0)
    # By descriptors that may only read, or only write.
    show(by, "modes", one.do("open", "r", f"@/{by}", "r"), one.do("open", "w", f"@/{by}", "w"))
    show(by, "read", lock(one, "none", "now"), lock(one, "shared", "now", file="r"), lock(two, "shared", "now"), lock(two, "none", "now"), lock(other, "exclusive", "now"))
    if by == "posix":
        show(by, "both", lock(one, "shared", "now", 40, 2, "r"), lock(one, "exclusive", "now", 50, 2, "w"), lock(one, "exclusive", "now", 41, 1, "w"), lock(one, "exclusive", "now", 60, 1, "r"))
        show(by, "asked", *(other.do("ask", "f", by, kind, "now", *part) for kind in ("shared", "exclusive") for part in ((0, 1), (40, 1), (41, 1), (50, 1), (60, 1))))
    # Of posix locks these two closings drop all.
    show(by, "closed", one.do("close", "r"), one.do("close", "w"), lock(other, "exclusive", "wait"), lock(other, "none", "now"), lock(other, "exclusive", "wait", 40, 30), lock(other, "none", "now", 0, 0))
    # Waiting: from both sides, ended by the lock, by a signal, by the death of who holds it.
    for holder, waiter in ((one, other), (other, one), (two, one)):
        show(by, "holds", lock(holder, "exclusive", "wait"))
        waiter.begin("lock", "f", by, "exclusive", "wait", 0, 10)
        waiter.asleep()
        os.kill(waiter.pid, signal.SIGUSR1)
        show(by, "signal", waiter.end())
        waiter.begin("lock", "f", by, "exclusive", "wait", 5, 10)
        waiter.asleep()
        server_ends()
        show(by, "released", lock(holder, "none", "now"), waiter.end(), lock(holder, "shared", "now"), lock(waiter, "none", "now", 0, 0))
    # As many as there may be threads in a server, and more: all wait, and each gets it.
    crowd = [Process(ONE) for _ in range(24)]
    show(by, "crowd", lock(other, "exclusive", "wait"), {process.do("open", "f", f"@/{by}", "rw") for process in crowd})
    for process in crowd:
        process.begin("lock", "f", by, "shared", "wait", 0, 10)
    for process in crowd:
        process.asleep()
    show(by, "all", lock(other, "none", "now"), {process.end() for process in crowd})
    for process in crowd:
        process.kill()
    show(by, "killed", lock(other, "exclusive", "wait"), lock(other, "none", "now"))
    show(by, "mine", lock(two, "exclusive", "wait"))
    two.kill()
    show(by, "died", lock(other, "exclusive", "wait"))
    other.kill()
    show(by, "died too", lock(one, "exclusive", "wait"))
    one.kill()

# Who waits for each other, in one tree: one of the two is refused, the other goes on.
one, two = Process(ONE), Process(ONE)
for process, at in ((one, 0), (two, 1)):
    show("deadlock", process.do("open", "f", "@/deadlock", "rw"), process.do("lock", "f", "posix", "exclusive", "now", at, 1))
one.begin("lock", "f", "posix", "exclusive", "wait", 1, 1)
one.asleep()
# It sleeps before its server knows that it waits; then the kernel shows who waits for the file.
waits = f":{os.stat(ONE + '/deadlock').st_ino} "
while not any("->" in line and waits in line for line in open("/proc/locks")):
    os.sched_yield()
refused = two.do("lock", "f", "posix", "exclusive", "wait", 0, 1)
show("refused", refused, two.do("lock", "f", "posix", "none", "now", 1, 1), one.end())
one.kill(), two.kill()
