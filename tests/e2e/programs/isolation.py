"""One process fails inside its driver; what the others see. usage: isolation.py ACTION DIRECTORY

The layer fault strikes the read of DIRECTORY/lines.txt that begins at byte 8192 or behind it, once in the run (`offset=8192+times=1`, `count=run`).
Prints what a file system of the kernel would show if a process had died between two calls."""

import os
import signal
import sys
import threading

action, directory = sys.argv[1:]
path = os.path.join(directory, "lines.txt")
other = os.path.join(directory, "hello.txt")
if not os.path.exists(path):
    with open(path, "w") as lines, open(other, "w") as hello:
        lines.writelines(f"line {number}\n" for number in range(1, 1001))
        hello.write("hello, world\n")
with open(path, "rb") as file:
    head = file.read(8192)
shared = os.open(path, os.O_RDONLY)


def child(work):
    """A process that does `work`; its number."""
    process = os.fork()
    if process == 0:
        work()
        os._exit(0)
    return process


def ended(process):
    """How it ended, for people."""
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return signal.Signals(-status).name if status < 0 else f"exit {status}"


def run_into_it():
    """Reads the shared description up to where the rule strikes."""
    while os.read(shared, 4096):
        pass


def ticks(process):
    """The time that it has worked in user mode, in ticks of the clock."""
    return int(open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()[11])


victim = child(run_into_it)
if action == "loop":
    # It is inside, and holds what it holds, when its offset has come that far and it goes on
    # working.
    while b"pos:\t8192\n" not in open(f"/proc/{victim}/fdinfo/{shared}", "rb").read():
        pass
    begun = ticks(victim)
    while ticks(victim) < begun + 3:
        pass

    def independent():
        """Another process, and other descriptions: nothing of this waits."""
        print("other file:", open(other).read().strip())
        with open(path, "rb") as mine:
            print("same file:", mine.read(8192) == head)
        print("listing:", "lines.txt" in os.listdir(directory), flush=True)

    print("independent:", ended(child(independent)))
    os.kill(victim, signal.SIGTERM)
else:
    # Not waited for: the dead one may hold locks as long as it likes.
    os.waitid(os.P_PID, victim, os.WEXITED | os.WNOWAIT)

# The description that both hold: nothing of the read that was not finished has happened.
rest = os.read(shared, 1 << 20)
print("shared description:", os.lseek(shared, 0, os.SEEK_CUR) == len(head + rest), (head + rest).count(b"\n"))
print("victim:", ended(victim))

# Everything goes on, also in several threads and processes at once.
threads = [threading.Thread(target=lambda: open(path, "rb").read()) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("after:", ended(child(lambda: os.read(os.open(path, os.O_RDONLY), 1 << 20))))
os.lseek(shared, 0, os.SEEK_SET)
print("whole:", os.read(shared, 1 << 20) == head + rest)
