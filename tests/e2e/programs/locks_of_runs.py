"""Record locks of processes in several places: culvert runs, kernel mounts, hosts.

Usage: locks_of_runs.py FILE COMMAND COMMAND, where COMMAND starts a program in a place, and FILE is
the file's path, or its two paths, separated by a colon: one of the places is a kernel mount then, whose
server has the locks, so that no process is told as their holder, and nobody sees who waits for whom.

Each process is told what to do by a pipe, one after the other. What waits is let wait until it
sleeps in the call.
"""
import errno, fcntl, os, shlex, signal, struct, subprocess, sys

KINDS = {"shared": fcntl.F_RDLCK, "exclusive": fcntl.F_WRLCK, "none": fcntl.F_UNLCK}


class Interrupted(Exception):
    pass


def interrupted(*_):
    raise Interrupted


def lock_of(kind, start, length):
    return struct.pack("hh4xqqi4x", KINDS[kind], os.SEEK_SET, int(start), int(length), 0)


def act(files, words):
    """What a process does when it is told `words`."""
    what, *rest = words
    if what == "open":
        files[rest[0]] = os.open(rest[1], os.O_CREAT | os.O_RDWR, 0o666)
    elif what == "close":
        os.close(files.pop(rest[0]))
    elif what == "take":
        kind, wait, start, length = rest
        fcntl.fcntl(files["f"], fcntl.F_SETLKW if wait == "wait" else fcntl.F_SETLK, lock_of(kind, start, length))
    elif what == "ask":
        found = struct.unpack("hh4xqqi4x", fcntl.fcntl(files["f"], fcntl.F_GETLK, lock_of(*rest)))
        return "free" if found[0] == fcntl.F_UNLCK else f"{found[0]} {found[2]} {found[3]} {found[4]}"
    elif what == "exec":
        os.set_inheritable(files["f"], rest[0] == "inherits")
        os.execv(sys.executable, [sys.executable, __file__, "worker", str(files["f"])])
    elif what == "fork":
        child = os.fork()
        if child == 0:
            signal.pause()
        return str(child)
    elif what == "closed-by-dup":
        os.close(os.dup(files["f"]))
    return "done"


def work(files):
    signal.signal(signal.SIGUSR1, interrupted)
    os.write(1, f"{os.getpid()}\n".encode())
    while line := sys.stdin.readline():
        try:
            answer = act(files, line.split())
        except OSError as error:
            answer = "held" if error.errno in (errno.EAGAIN, errno.EACCES) else errno.errorcode[error.errno]
        except Interrupted:
            answer = "interrupted"
        os.write(1, (answer + "\n").encode())


if sys.argv[1] == "worker":
    work({"f": int(number) for number in sys.argv[2:]})
    sys.exit()


class Process:
    def __init__(self, place):
        self.file, command = place
        argv = shlex.split(command) + [sys.executable, __file__, "worker"]
        self.started = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = int(self.end())
        self.do("open", "f", self.file)

    def begin(self, *words):
        self.started.stdin.write(" ".join(words) + "\n")

    def end(self):
        return self.started.stdout.readline().strip()

    def do(self, *words):
        self.begin(*words)
        return self.end()

    def take(self, kind, start=0, length=10):
        return self.do("take", kind, "now", str(start), str(length))

    def wait(self, start=0, length=10):
        """Begins to wait for an exclusive lock; returns when it sleeps."""
        self.begin("take", "exclusive", "wait", str(start), str(length))
        while True:
            with open(f"/proc/{self.pid}/syscall") as file:
                call = file.read().split()[0]
            with open(f"/proc/{self.pid}/stat") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
            if state == "S" and call == "72":
                return
            os.sched_yield()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.started.wait()


def show(*what):
    print(*what, flush=True)


file, *commands = sys.argv[1:]
mixed = ":" in file
files = file.split(":") * (1 if mixed else 2)
one, other = places = list(zip(files, commands))

for at, there in ((one, other), (other, one)):
    a, b = Process(at), Process(there)
    show("taken", a.take("exclusive"), b.take("exclusive"), b.take("shared"), b.take("exclusive", 10), b.take("none", 10))
    kind, start, length, pid = b.do("ask", "exclusive", "2", "3").split()
    show("asked", kind, start, length, "its process" if mixed or int(pid) == a.pid else "somebody")
    show("shared", a.take("shared"), b.take("shared"), b.take("exclusive"), b.take("none"))
    # A part: the rest stays.
    show("part", a.take("none", 3, 4), b.take("exclusive", 3, 4), b.take("exclusive", 2), a.take("exclusive", 3), b.take("none"))
    b.do("take", "none", "now", "0", "0"), a.do("take", "none", "now", "0", "0")
    show("waits", a.take("exclusive"))
    b.wait()
    os.kill(b.pid, signal.SIGUSR1)
    show("signal", b.end())
    b.wait(5)
    show("released", a.take("none"), b.end(), a.take("exclusive", 0, 0), a.take("exclusive", 0, 5), a.take("none", 0, 0))
    a.wait()
    b.kill()
    show("killed", a.end())
    b = Process(there)
    show("held", b.take("shared"), a.do("closed-by-dup"), b.take("exclusive"), b.take("none"))
    # A child has no lock, and keeps none.
    taken, child = a.take("exclusive"), int(a.do("fork"))
    show("forked", taken, b.take("exclusive"))
    a.kill()
    show("parent killed", b.take("exclusive"), b.take("none"))
    os.kill(child, signal.SIGKILL)
    # The next program has it, while it has the descriptor.
    a = Process(at)
    for _ in range(3):
        pid, a.pid = a.pid, int(a.take("exclusive") and a.do("exec", "inherits"))
        show("executed", pid == a.pid, b.take("shared"))
    show("closed", a.do("close", "f"), b.take("shared"), b.take("none"))
    a.kill()
    a = Process(at)
    show("other", a.take("exclusive"), a.do("exec", "closes") != "", b.take("shared"), b.take("none"))
    a.kill()
    # Each waits for the other.
    a = Process(at)
    show("each", a.take("exclusive", 0, 1), b.take("exclusive", 1, 1))
    a.wait(1, 1)
    if mixed:
        b.take("none", 1, 1), a.end(), a.kill(), b.kill()
        continue
    refused = b.do("take", "exclusive", "wait", "0", "1")
    show("refused", refused, b.take("none", 1, 1), a.end())
    a.kill(), b.kill()
