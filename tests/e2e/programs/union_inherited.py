#!/usr/bin/env python3
"""Descriptors of a union that go through fork, vfork and exec while names change, below TARGET."""
import os, sys

os.chdir(sys.argv[1])
os.mkdir("d")
file = os.open("d/f", os.O_CREAT | os.O_RDWR, 0o600)
# posix_spawn(3) opens it in a child that shares this process's memory.
opens = [(os.POSIX_SPAWN_OPEN, 9, "d/f", os.O_RDONLY, 0)]
os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ, file_actions=opens), 0)
os.fchmod(file, 0o640)
print(oct(os.stat("d/f").st_mode & 0o777))
listed = [(os.POSIX_SPAWN_OPEN, 9, "d", os.O_RDONLY | os.O_DIRECTORY, 0)]
directory = os.open("d", os.O_DIRECTORY)
os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ, file_actions=listed), 0)
print(os.listdir(directory))
# A directory that this process, or another one, renames after both have it.
os.set_inheritable(directory, True)
for new in ("e", "g"):
    child = os.fork()
    if child == 0:
        if new == "g":
            os.rename("e", "g")
        os._exit(0)
    os.waitpid(child, 0)
    if new == "e":
        os.rename("d", "e")
    look = f"import os; print(os.listdir({directory}), os.readlink('/proc/self/fd/{directory}')[-1])"
    child = os.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-c", look])
    os.waitpid(child, 0)
