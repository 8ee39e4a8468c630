"""Kills the service of two runs while one of them has a record lock: the lock stays that run's, the
next service gives out positions, and nothing is lost: plfs_service.py CULVERT PLACE."""

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time

import plfs_processes

culvert, place = sys.argv[1:3]
file, path = f"{place}/mnt/f", f"{place}/sync"
mount = f"type=plfs,source={place}/back,target={place}/mnt,sync={path}"


def services():
    return plfs_processes.of("run-sync", path)


def child():
    return plfs_processes.child(services())


def share():
    """The inode of the memory of the service that answers."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.settimeout(60)
    link.connect(path)
    link.send(b"CvS2" + bytes([5]) + bytes(43))
    _, fds, _, _ = socket.recv_fds(link, 64, 1)
    found = os.fstat(fds[0]).st_ino
    os.close(fds[0])
    return found


def memories():
    """Those that this process has mapped, by inode."""
    lines = open("/proc/self/maps").read().splitlines()
    return {int(line.split()[4]) for line in lines if "memfd:culvert-sync" in line}


def writer(name):
    """In a run: does what it is told, a line each."""
    log = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    for word in sys.stdin:
        try:
            match word.strip():
                case "append":
                    for _ in range(100):
                        assert os.write(log, name.encode()) == 1
                    print(sorted(memories())[-1], flush=True)
                case "lock":
                    fcntl.lockf(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    print("has it", flush=True)
                case "unlock":
                    fcntl.lockf(log, fcntl.LOCK_UN)
                    print("gave it back", flush=True)
        except OSError as error:
            print(errno.errorcode[error.errno], flush=True)


class Run:
    def __init__(self, name):
        words = [culvert, "run", "--mount", mount, "--", sys.executable, __file__, culvert, place]
        pipe = subprocess.PIPE
        self.run = subprocess.Popen([*words, name], stdin=pipe, stdout=pipe, text=True)

    def __call__(self, word):
        self.run.stdin.write(word + "\n")
        self.run.stdin.flush()
        return self.run.stdout.readline().strip()

    def end(self):
        self.run.stdin.close()
        assert self.run.wait() == 0


def main():
    subprocess.run([culvert, "run-sync", path], check=True)
    one, two = Run("a"), Run("b")
    print(one("append") == two("append") == str(share()))
    print(one("lock"), two("lock"))
    killed = child()
    os.kill(killed, signal.SIGKILL)
    print(two("lock"))
    # Those that find it gone are not kept waiting, and find the next one a moment later.
    until = time.monotonic() + 60
    while not one("append") == two("append") == str(share()) and time.monotonic() < until:
        time.sleep(0.01)
    print("the next one" if child() != killed else "the same", time.monotonic() < until)
    print(two("lock"), one("unlock"), two("lock"), one("lock"))
    # Whoever ends the run ends the lock.
    two.end()
    print(one("lock"))
    one.end()
    os.kill(child(), signal.SIGTERM)
    while services():
        time.sleep(0.01)
    words = [culvert, "run", "--mount", mount, "--", "cat", file]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    print(set(text) == {"a", "b"}, text.count("a") == text.count("b") >= 200)


if sys.argv[3:]:
    writer(sys.argv[3])
else:
    main()
