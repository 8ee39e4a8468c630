#!/usr/bin/env python3
"""Children of fork, vfork and posix_spawn that open, close and write a file that their parent has open
on a plfs mount: its writes and theirs follow each other, and the parent keeps its own droppings.

plfs_spawned.py FILE
"""
import os
import subprocess
import sys

path = sys.argv[1]
APPEND = os.O_WRONLY | os.O_APPEND
log = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
want = b""
for step in range(24):
    line = b"parent %d\n" % step
    assert os.write(log, line) == len(line)
    want += line
    child = f"child {step}"
    if step % 4 == 0:
        # posix_spawn(3): the child opens, closes and cuts in memory that it shares.
        actions = [
            (os.POSIX_SPAWN_OPEN, 9, path + ".other", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
            (os.POSIX_SPAWN_OPEN, 1, path, APPEND, 0),
            (os.POSIX_SPAWN_CLOSE, log),
        ]
        words = ["/bin/echo", child]
        pid = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
        assert os.waitpid(pid, 0)[1] == 0
    elif step % 4 == 1:
        # vfork(2), with what the parent has open.
        subprocess.run(["/bin/echo", child], stdout=log, check=True)
    elif step % 4 == 2:
        # fork(2), a descriptor of its own, and none that is left.
        pid = os.fork()
        if pid == 0:
            own = os.open(path, APPEND)
            os.dup2(own, 1)
            os.close(log)
            os.close(own)
            os.execv("/bin/echo", ["/bin/echo", child])
        assert os.waitpid(pid, 0)[1] == 0
    else:
        # It goes on beside its parent, and ends without a close.
        pid = os.fork()
        if pid == 0:
            os.write(log, child.encode() + b"\n")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    want += child.encode() + b"\n"
    assert os.fstat(log).st_size == len(want)
assert os.pread(log, 1 << 16, 0) == want, os.pread(log, 1 << 16, 0)
print("as written", os.getpid())
