"""Files and directories that come and go on `memory`, in every way: memory_blocks.py DIRECTORY

What is removed gives all its blocks and its inode back. Tables that grow with what is in use stay with the file system (of inodes, of processes, of blocks that were given
back to the kernel), so everything is done until these have what they need, and what is free is counted from then on."""

import ctypes
import mmap
import os
import random
import signal
import subprocess
import sys
import threading

# Removed inodes wait in a queue of 1024 before they are used again.
QUEUE = 1100
libc = ctypes.CDLL(None)


def allocate(fd, mode, offset, length):
    libc.fallocate64(fd, mode, ctypes.c_long(offset), ctypes.c_long(length))


def made(name, size, at=0):
    fd = os.open(name, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"x" * size, at)
    return fd


def child(act):
    pid = os.fork()
    if not pid:
        act()
        os._exit(0)
    os.waitpid(pid, 0)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def sizes():
    for size in (0, 10, 3000, 5000, 100_000, 3 << 20):
        os.close(made("file", size))
        os.unlink("file")


def sparse():
    fd = made("file", 10, 1 << 40)
    for part in range(20):
        os.pwrite(fd, b"y" * 5000, (1 << 20) * part * 7)
    os.ftruncate(fd, 12345)
    os.ftruncate(fd, 99_999_999)
    os.close(fd)
    os.unlink("file")


def shrinking():
    fd = made("file", 1 << 20)
    for blocks in range(255, 0, -1):
        os.ftruncate(fd, blocks * 4096 + 7)
    os.close(fd)
    os.unlink("file")


def holes():
    fd = made("file", 1 << 20)
    for page in range(0, 256, 2):
        allocate(fd, 3, page * 4096, 4096)
    allocate(fd, 8, 0, 8192)  # FALLOC_FL_COLLAPSE_RANGE
    allocate(fd, 0x20, 0, 8192)  # FALLOC_FL_INSERT_RANGE
    allocate(fd, 0x10, 4096, 300_000)  # FALLOC_FL_ZERO_RANGE
    allocate(fd, 1, 0, 4 << 20)  # FALLOC_FL_KEEP_SIZE
    os.close(fd)
    os.unlink("file")


def appended():
    for _ in range(100):
        fd = os.open("file", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, b"line\n" * 100)
        os.close(fd)
    os.unlink("file")


def directories():
    os.mkdir("folder")
    for number in range(300):
        os.close(made(f"folder/{number:03}" + "n" * (number % 200), number))
    for entry in os.listdir("folder"):
        os.unlink(f"folder/{entry}")
    os.rmdir("folder")
    paths = ["deep" + "/x" * depth for depth in range(40)]
    for path in paths:
        os.mkdir(path)
    for path in reversed(paths):
        os.rmdir(path)


def attributes():
    os.close(made("file", 1))
    os.mkdir("folder")
    for number in range(20):
        os.setxattr("file", f"user.a{number}", b"v" * 300)
    for number in range(10):
        os.removexattr("file", f"user.a{number}")
    os.setxattr("folder", "user.large", b"v" * 3000)
    os.unlink("file")
    os.rmdir("folder")


def names():
    os.symlink("short", "one")
    os.symlink("long" * 1000, "two")
    os.close(made("file", 10_000))
    os.close(made("other", 20_000))
    os.link("file", "link")
    os.rename("file", "other")
    os.mkfifo("fifo")
    for name in ("one", "two", "other", "link", "fifo"):
        os.unlink(name)


def without_a_name():
    fd = made("file", 100_000)
    os.unlink("file")
    os.pwrite(fd, b"z" * 100_000, 100_000)
    os.close(fd)
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR)
    os.write(fd, b"z" * 100_000)
    os.close(fd)


def mapped():
    for unlinked in (False, True):
        fd = made("file", 3_000_000)
        view = mmap.mmap(fd, 100_000)
        if unlinked:
            os.unlink("file")
        view[5] = view[99_999] = 1
        os.ftruncate(fd, 200_000)
        os.ftruncate(fd, 5_000_000)
        os.close(fd)
        view.close()
        if not unlinked:
            os.unlink("file")


def inherited():
    for unlinked in (False, True):
        fd = made("file", 100_000)
        if unlinked:
            os.unlink("file")
        child(lambda: os.write(fd, b"q" * 100_000))
        os.set_inheritable(fd, True)
        subprocess.run(["sh", "-c", f"echo line >&{fd}"], close_fds=False, check=True)
        os.close(fd)
        if not unlinked:
            os.unlink("file")


def killed():
    def opened():
        made("file", 200_000)
        os.unlink("file")
        die()

    def stored():
        fd = made("file", 200_000)
        mmap.mmap(fd, 200_000)[3] = 3
        os.unlink("file")
        die()

    for _ in range(3):
        child(opened)
        child(stored)


def together():
    def works(name):
        for _ in range(50):
            os.close(made(name, random.randrange(1, 50_000)))
            os.unlink(name)

    threads = [threading.Thread(target=works, args=(f"thread{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for number in range(3):
        pid = os.fork()
        if not pid:
            works(f"child{number}")
            os._exit(0)
        children.append(pid)
    for thread in threads:
        thread.join()
    for pid in children:
        os.waitpid(pid, 0)


def programs():
    subprocess.run(["cp", "/bin/true", "program"], check=True)
    subprocess.run(["./program"], check=True)
    os.unlink("program")


CASES = [sizes, sparse, shrinking, holes, appended, directories, attributes, names, without_a_name]
CASES += [mapped, inherited, killed, together, programs]


def free():
    found = os.statvfs(".")
    return found.f_bfree, found.f_ffree


def main():
    os.chdir(sys.argv[1])
    for number in range(QUEUE):
        os.close(made(f"queued{number}", 1))
    for number in range(QUEUE):
        os.unlink(f"queued{number}")
    for act in CASES * 2:
        act()
    start = free()
    for act in CASES * 3:
        act()
    end = free()
    lost = start[0] - end[0], start[1] - end[1]
    # Fewer blocks than rounds are a table that has grown once more, because more was done at the
    # same time.
    print("nothing is lost" if lost[0] < 3 and lost[1] == 0 else f"lost: {lost[0]} blocks, {lost[1]} inodes", *os.listdir("."))


main()
