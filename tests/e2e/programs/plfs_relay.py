"""Kills a relay, talks to the next one, and ends that: plfs_relay.py FILE SOCKET."""

import os
import signal
import socket
import sys
import time

import plfs_processes

file, path = sys.argv[1:]


def answers():
    """Whether the relay refuses what is no address."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(60)
    link.connect(path)
    link.sendall(b"CvR1 nowhere\n")
    return int.from_bytes(link.recv(4), "little") == 22


def relays():
    return plfs_processes.of("run-sync-relay", path)


def end(how):
    os.kill(plfs_processes.child(relays()), how)


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
