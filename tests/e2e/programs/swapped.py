#!/usr/bin/env python3
"""Somebody without rights swaps names in SOURCE for links that lead to OUTSIDE, while he works on
MOUNT, which a server of root's serves. Prints how often he read what is OUTSIDE, whether anything
worked, and what has changed there."""
import os, sys

mount, source, outside, times = sys.argv[1:]
WHO, EVERYBODY = 65534, 9997


def become():
    os.setgroups([EVERYBODY])
    os.setresgid(WHO, WHO, WHO)
    os.setresuid(WHO, WHO, WHO)


def state():
    found = []
    for root, directories, files in os.walk(outside):
        for name in sorted(directories + files):
            path = f"{root}/{name}"
            seen = os.lstat(path)
            text = open(path).read() if name in files else ""
            found.append((path, seen.st_mode, seen.st_uid, seen.st_nlink, seen.st_mtime_ns, text,
                          os.listxattr(path)))
    return found


def ignored(call, *words):
    try:
        return call(*words)
    except OSError:
        return None


def swap(number):
    """A directory, a file or a link becomes a link to another place, and is there again."""
    name = ["directory", "file", "link"][number % 3]
    below = "" if name == "directory" else "/secret"
    lead = [f"{outside}{below}", f"../outside{below}", "own"][number // 3 % 3]
    name, parked = f"{source}/{name}", f"{source}/.parked"
    for call, words in [(os.rename, (name, parked)), (os.symlink, (lead, name)), (os.unlink, (name,)),
                        (os.rename, (parked, name))]:
        ignored(call, *words)


def write(path):
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(fd, b"!")
    os.close(fd)
    return ""


def read(path):
    with open(path) as file:
        return file.read(40)


CALLS = [
    read,
    write,
    lambda path: os.truncate(path, 1),
    lambda path: os.chmod(path, 0o777),
    lambda path: os.utime(path, (1, 1)),
    lambda path: os.setxattr(path, "user.a", b"x"),
    lambda path: os.rename(path, f"{mount}/taken"),
    lambda path: os.link(path, f"{mount}/linked", follow_symlinks=False),
    lambda path: os.unlink(path),
    lambda path: os.mkdir(os.path.dirname(path) + "/made"),
    lambda path: " ".join(os.listdir(os.path.dirname(path))),
    lambda path: os.unlink(f"{mount}/taken"),
    lambda path: os.unlink(f"{mount}/linked"),
]

before = state()
child = os.fork()
if child == 0:
    become()
    os.umask(0)
    number = 0
    while os.getppid() != 1:
        swap(number)
        number += 1
worker = os.fork()
if worker == 0:
    become()
    os.umask(0)
    found, done = 0, 0
    for _ in range(int(times)):
        for call in CALLS:
            for name in ["file", "directory/secret", "link", "directory/new"]:
                try:
                    text = call(f"{mount}/{name}")
                    done += 1
                    found += "SECRET" in (text or "")
                except OSError:
                    pass
        for name in ["file", "directory/secret", "own"]:
            ignored(write, f"{source}/{name}")
    print(found, "some" if done > int(times) else f"only {done}", end=" ", flush=True)
    os._exit(0)
os.waitpid(worker, 0)
os.kill(child, 9)
print("unchanged" if state() == before else f"changed {before} {state()}")
