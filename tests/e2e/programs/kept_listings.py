"""Listings of a directory whose entries come and go, here and in the source behind: SOURCE TARGET.
Prints what is wrong, then "listed"."""

import ctypes, os, sys, threading, time

SOURCE, TARGET = sys.argv[1:]
STAY = sorted(f"stay-{i}-{'a' * 40}" for i in range(2000))
libc = ctypes.CDLL(None, use_errno=True)


def getdents(fd, size):
    """Names with the positions after them."""
    room = ctypes.create_string_buffer(size)
    length = libc.getdents64(fd, room, ctypes.c_size_t(size))
    assert length >= 0, os.strerror(ctypes.get_errno())
    raw, found, at = room.raw, [], 0
    while at < length:
        after = int.from_bytes(raw[at + 8 : at + 16], "little", signed=True)
        end = at + int.from_bytes(raw[at + 16 : at + 18], "little")
        found.append((raw[at + 19 : end].split(b"\0")[0].decode(), after))
        at = end
    return found


def rest(fd, size=4096):
    found = []
    while part := getdents(fd, size):
        found += part
    return found


def names(found):
    return sorted(name for name, _ in found if name not in (".", ".."))


def until(wanted, fd):
    """What others change the kernel is told within a moment."""
    end = time.monotonic() + 20
    while True:
        os.lseek(fd, 0, os.SEEK_SET)
        found = names(rest(fd))
        if found == wanted or time.monotonic() > end:
            return found
        time.sleep(0.01)


def wrong(what, found, wanted):
    if found != wanted:
        print(what, sorted(set(found) ^ set(wanted))[:9], len(found), len(wanted))


os.mkdir(f"{SOURCE}/d")
for name in STAY:
    open(f"{SOURCE}/d/{name}", "x").close()
fd = os.open(f"{TARGET}/d", os.O_RDONLY | os.O_DIRECTORY)
wrong("first", until(STAY, fd), STAY)

# By this mount: at once. By others: soon, also within a tick of the file system's clock.
for n in range(20):
    open(f"{TARGET}/d/{n}", "x").close()
    wrong("made here", sorted(os.listdir(f"{TARGET}/d")), sorted(STAY + [str(i) for i in range(n + 1)]))
for n in range(20):
    os.unlink(f"{SOURCE}/d/{n}")
    getdents(fd, 4096)
wrong("removed by others", until(STAY, fd), STAY)
for n in range(20):
    open(f"{SOURCE}/d/{n}", "x").close()
    os.listdir(f"{TARGET}/d")
wrong("made by others", until(sorted(STAY + [str(i) for i in range(20)]), fd), sorted(STAY + [str(i) for i in range(20)]))
for n in range(20):
    os.unlink(f"{TARGET}/d/{n}")
wrong("removed here", sorted(os.listdir(f"{TARGET}/d")), STAY)

# In several reads while others come and go: what stays is there, once.
for where in (SOURCE, TARGET):
    stop = threading.Event()

    def change():
        n = 0
        while not stop.is_set():
            name, n = f"{where}/d/gone-{n % 50}", n + 7
            try:
                open(name, "x").close()
            except FileExistsError:
                os.unlink(name)

    thread = threading.Thread(target=change)
    thread.start()
    for size in [300, 1000, 4096, 32768] * 5:
        listed = os.open(f"{TARGET}/d", os.O_RDONLY | os.O_DIRECTORY)
        found = [name for name in names(rest(listed, size)) if name.startswith("stay")]
        wrong(f"while it changes, {size}", found, STAY)
        os.close(listed)
    stop.set()
    thread.join()
for name in os.listdir(f"{SOURCE}/d"):
    if name.startswith("gone"):
        os.unlink(f"{SOURCE}/d/{name}")
wrong("afterwards", until(STAY, fd), STAY)

# seekdir(3), and reading on when the kernel has dropped what it had.
os.lseek(fd, 0, os.SEEK_SET)
found = rest(fd)
for at in range(0, len(found) - 1, 97):
    os.lseek(fd, found[at][1], os.SEEK_SET)
    wrong("position", getdents(fd, 4096)[0][0], found[at + 1][0])
os.lseek(fd, 0, os.SEEK_SET)
begun = getdents(fd, 4096)
if os.geteuid() == 0:
    with open("/proc/sys/vm/drop_caches", "w") as drop:
        drop.write("1")
wrong("dropped", names(begun + rest(fd)), STAY)
os.fsync(fd)
os.close(fd)

# A directory that is removed while it is open.
os.mkdir(f"{TARGET}/gone")
fd = os.open(f"{TARGET}/gone", os.O_RDONLY | os.O_DIRECTORY)
rest(fd)
os.rmdir(f"{TARGET}/gone")
os.lseek(fd, 0, os.SEEK_SET)
try:
    wrong("of a removed one", names(rest(fd)), [])
except AssertionError:
    pass
os.fsync(fd)
print("listed")
