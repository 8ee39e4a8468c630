#!/usr/bin/env python3
"""Old files that nobody may write, shown as links (`symlinkify`): `fill A B` makes them, `wait DIRECTORY`
waits until what lies there is old, `look MOUNT` says what is seen of them and what can be done."""
import os, stat, sys, time

command, *paths = sys.argv[1:]


def fill(a, b):
    os.umask(0)
    for branch, name, mode in [
        (a, "f", 0o444), (a, "x", 0o555), (a, "r", 0o400), (b, "g", 0o444), (b, "w", 0o644), (b, "u", 0o444),
        (b, "c", 0o444), (b, "t", 0o444),
    ]:
        os.makedirs(f"{branch}/d", exist_ok=True)
        with open(f"{branch}/d/{name}", "w") as file:
            file.write(f"{name}\n")
        os.chmod(f"{branch}/d/{name}", mode)
    os.symlink("f", f"{a}/d/l")
    os.mkfifo(f"{a}/d/p", 0o444)
    os.mkdir(f"{a}/d/sub", 0o555)
    for branch in (a, b):
        for name in os.listdir(f"{branch}/d"):
            os.utime(f"{branch}/d/{name}", (1000, 1000), follow_symlinks=False)


def wait(directory):
    changed = max(os.lstat(f"{directory}/{name}").st_ctime for name in os.listdir(directory))
    while time.time() < changed + 3:
        time.sleep(0.1)


def says(what, work):
    try:
        print(what, work())
    except OSError as error:
        print(what, os.strerror(error.errno))


def seen(directory):
    # Sizes of links are another matter: mergerfs shows those of the files.
    for name in sorted(os.listdir(directory)):
        path = f"{directory}/{name}"
        found = os.lstat(path)
        link = stat.S_ISLNK(found.st_mode)
        size = found.st_size if stat.S_ISREG(found.st_mode) else ""
        print(name, f"{found.st_mode:o}", os.readlink(path) if link else size, found.st_uid)


def look(mount):
    d = f"{mount}/d"
    seen(d)
    for name in "fxrglwu":
        says(f"open {name}", lambda: open(f"{d}/{name}").read())
        says(f"itself {name}", lambda: os.close(os.open(f"{d}/{name}", os.O_RDONLY | os.O_NOFOLLOW)))
    says("append", lambda: open(f"{d}/w", "a").write("more"))
    says("chmod", lambda: os.chmod(f"{d}/f", 0o600))
    says("chown", lambda: os.chown(f"{d}/c", 1, 1))
    says("rename", lambda: os.rename(f"{d}/x", f"{d}/y"))
    says("truncate", lambda: os.truncate(f"{d}/t", 1))
    says("unlink", lambda: os.unlink(f"{d}/u"))
    says("create", lambda: os.close(os.open(f"{d}/new", os.O_CREAT | os.O_WRONLY, 0o444)))
    says("there", lambda: os.close(os.open(f"{d}/g", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444)))
    seen(d)


{"fill": fill, "wait": wait, "look": look}[command](*paths)
