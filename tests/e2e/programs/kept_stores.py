"""What a killed writer has stored cannot be written back, because the source is not there: it is kept, which is said once, in one line, and written when the
source is there again, unless the file was changed since.

usage: kept_stores.py CULVERT PLACE
"""
import fcntl
import os
import pty
import subprocess
import sys

WRITER = """
import mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR)
m = mmap.mmap(f, 8192)
m[0:6] = b"stored"
os.write(1, b"!")
os.read(0, 1)
"""
BASE = "/dev/shm/culvert-%d" % os.getuid()


def directories():
    return {name for name in os.listdir(BASE) if os.path.exists("%s/%s/mappings" % (BASE, name))} if os.path.isdir(BASE) else set()


def on_terminal(words):
    """What `words` say on a terminal, line by line."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while more := os.read(ours, 4096):
            said += more
    except OSError:
        pass  # nobody has the terminal any more
    os.close(ours)
    if done.wait() != 0:
        sys.exit("it failed: %r" % said)
    return [line for line in said.decode().split("\r\n") if line]


def main():
    culvert, place = sys.argv[1:]
    source, target = place + "/source", place + "/target"
    os.mkdir(source)
    os.mkdir(target)
    run = [culvert, "run", "--no-private", "-v"]
    mount = run + ["%s:%s:driven,descriptor=no" % (source, target), "--"]
    os.mkdir(place + "/other")
    other = run + ["%s:%s:driven" % (place + "/other", target), "--", "true"]
    for changed in (False, True):
        with open(source + "/file", "wb") as file:
            file.write(b"before".ljust(8192, b"."))
        words = [sys.executable, "-S", "-E", "-c", WRITER, target + "/file"]
        writer = subprocess.Popen(mount + words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        writer.stdout.read(1)
        name = {name for name in directories() if holds(name, target)}
        os.rename(source, source + "-away")
        writer.kill()
        writer.wait()
        if len(name) != 1:
            sys.exit("the run directory is one of %s" % name)
        directory = "%s/%s" % (BASE, name.pop())
        # Until the pager, which cannot write it back either, has ended.
        with open(directory + "/lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
        said = [line for line in on_terminal(other) if directory in line or not line.startswith("culvert: ")]
        again = [line for line in on_terminal(other) if directory in line]
        print(len(said), all(line.startswith("culvert: what a killed program had stored") for line in said), len(again))
        os.rename(source + "-away", source)
        if changed:
            with open(source + "/file", "r+b") as file:
                file.write(b"edited")
            later = os.stat(source + "/file").st_mtime + 60
            os.utime(source + "/file", (later, later))
        subprocess.run(mount + ["true"], check=True)
        with open(source + "/file", "rb") as file:
            print(file.read(6).decode(), os.path.exists(directory))
        if changed:
            subprocess.run(["rm", "-r", directory], check=True)


def holds(name, target):
    """Whether run directory `name` has the mount at `target`."""
    with open("%s/%s/mounts" % (BASE, name), "rb") as mounts:
        return target.encode() in mounts.read()


main()
