"""Kills a relay, talks to the next one, and ends that: plfs_relay.py FILE SOCKET."""

import os
import pathlib
import signal
import socket
import sys
import time

file, path = sys.argv[1:]


def answers():
    """Whether the relay refuses what is no address."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(60)
    link.connect(path)
    link.sendall(b"CvR1 nowhere\n")
    return int.from_bytes(link.recv(4), "little") == 22


def relays():
    """Its processes, each with its parent."""
    found = {}
    for one in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (one / "cmdline").read_bytes().split(b"\0")
            parent = int((one / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        if words[1:3] == [b"run-sync-relay", path.encode()]:
            found[int(one.name)] = parent
    return found


def end(how):
    found = relays()
    child = next(pid for pid, parent in found.items() if parent in found)
    os.kill(child, how)


log = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(log, b"1")
print({2: "two processes"}.get(len(relays())))
print("answers" if answers() else "wrong")
end(signal.SIGKILL)
print("answers again" if answers() else "wrong")
os.write(log, b"2")
print(open(file).read())
end(signal.SIGTERM)
while relays():
    time.sleep(0.01)
print("ended")
