"""Load on a mount whose server is killed again and again: nothing may fail, nothing may be lost.

served_again.py MOUNT KILLS [PARENT]   PARENT: the keeper's process id, whose child is killed; none: natively
"""

import os
import signal
import sys
import threading

place, kills = sys.argv[1], int(sys.argv[2])
keeper = int(sys.argv[3]) if len(sys.argv) > 3 else 0
stop = threading.Event()
progress = threading.Condition()
failures = []
rounds = [0] * 5


def went_on(number):
    with progress:
        rounds[number] += 1
        progress.notify()


def server():
    """The keeper's child, or None while there is none."""
    try:
        with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as children:
            words = children.read().split()
    except FileNotFoundError:
        return None
    return int(words[0]) if words else None


def killer():
    dead = None
    try:
        for count in range(kills):
            # Some work between two kills, counted, not timed; a different amount each time.
            wanted = 1 + count * 7 % 5
            with progress:
                before = list(rounds)
                progress.wait_for(
                    lambda: failures or all(now - then >= wanted for now, then in zip(rounds, before))
                )
            if keeper:
                victim = server()
                while victim is None or victim == dead:
                    victim = server()
                os.kill(victim, signal.SIGKILL)
                dead = victim
    except Exception as error:
        failures.append(f"killer: {error!r}")
    finally:
        stop.set()


def synced(path, data):
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444)
    try:
        assert os.write(fd, data) == len(data)
        os.fsync(fd)
    finally:
        os.close(fd)


def names(number):
    """Everything that changes names."""
    base = f"{place}/names{number}"
    os.mkdir(base)
    turn = 0
    while not stop.is_set():
        turn += 1
        a, b = f"{base}/a{turn}", f"{base}/b{turn}"
        synced(a, b"x" * turn)
        os.link(a, b)
        assert os.stat(b).st_nlink == 2
        os.rename(a, f"{a}.moved")
        os.symlink(b, a)
        assert os.readlink(a) == b
        os.mkdir(f"{b}.d")
        os.rename(f"{a}.moved", f"{b}.d/in")
        assert os.path.getsize(f"{b}.d/in") == turn
        os.setxattr(f"{b}.d", "user.x", b"1", os.XATTR_CREATE)
        os.removexattr(f"{b}.d", "user.x")
        os.unlink(a)
        os.unlink(b)
        os.unlink(f"{b}.d/in")
        os.mkfifo(f"{b}.d/pipe")
        os.unlink(f"{b}.d/pipe")
        os.rmdir(f"{b}.d")
        assert os.listdir(base) == [], os.listdir(base)
        went_on(number)


def appends(number):
    """Every append is there once, in order, in one open of long standing and in many short ones."""
    path = f"{place}/log{number}"
    want = b""
    with open(path, "ab", buffering=0) as long_open:
        turn = 0
        while not stop.is_set():
            turn += 1
            line = b"%d:" % turn + b"y" * (turn * 37 % 3000) + b"\n"
            if turn % 2:
                assert long_open.write(line) == len(line)
            else:
                with open(path, "ab", buffering=0) as short:
                    assert short.write(line) == len(line)
                    os.fsync(short.fileno())
            want += line
            if turn % 16 == 0:
                with open(path, "rb") as file:
                    assert file.read() == want, "appends"
                went_on(number)


def unlinked(number):
    """A file without a name, written, read and mapped by one open."""
    path = f"{place}/gone{number}"
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o600)
    os.unlink(path)
    turn = 0
    while not stop.is_set():
        turn += 1
        block = bytes([turn % 256]) * 4096
        offset = turn % 50 * 4096
        assert os.pwrite(fd, block, offset) == 4096
        assert os.pread(fd, 4096, offset) == block
        os.ftruncate(fd, offset + 4096)
        assert os.fstat(fd).st_size == offset + 4096 and os.fstat(fd).st_nlink == 0
        went_on(number)


def listing(number):
    """Directories are listed whole."""
    base = f"{place}/many"
    os.mkdir(base)
    for count in range(300):
        synced(f"{base}/{count:04}", b"")
    want = [f"{count:04}" for count in range(300)]
    while not stop.is_set():
        assert sorted(os.listdir(base)) == want
        with os.scandir(base) as entries:
            assert all(entry.stat().st_size == 0 for entry in entries)
        went_on(number)


def guarded(work, number):
    try:
        work(number)
    except Exception as error:
        failures.append(f"{work.__name__}: {error!r} at line {error.__traceback__.tb_next.tb_lineno}")
        stop.set()
        with progress:
            progress.notify()


workers = [names, names, appends, unlinked, listing]
threads = [threading.Thread(target=guarded, args=(work, number)) for number, work in enumerate(workers)]
for thread in threads:
    thread.start()
killer()
for thread in threads:
    thread.join()
print("\n".join(failures) or "nothing failed")
sys.exit(bool(failures))
