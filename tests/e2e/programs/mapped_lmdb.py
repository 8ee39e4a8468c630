"""LMDB: a sparse map of a gigabyte that readers read and (WRITEMAP) writers write, and a lock file whose mutexes lie in a shared mapping.

mapped_lmdb.py DIRECTORY [ROUNDS] [SEED]     Two writers and a reader in each round; all are killed in the middle.
"""

import os
import random
import signal
import struct
import subprocess
import sys

import lmdb

SIZE = 1 << 30
NUMBER = struct.Struct(">Q")


def opened(path, writemap):
    return lmdb.open(path, map_size=SIZE, max_dbs=4, writemap=writemap == "w", map_async=False)


def value(n):
    """What belongs to number n; some need pages of their own."""
    return (b"%d " % n) * (1 + n * 131 % 1500)


def check(path, writemap):
    """As a process of its own would see it: the counter, and every number's value."""
    with opened(path, writemap) as e, e.begin() as t:
        (n,) = NUMBER.unpack(t.get(b"counter"))
        found = [(NUMBER.unpack(key[1:])[0], v) for key, v in t.cursor() if key[:1] == b"n"]
    assert [key for key, _ in found] == list(range(n)), (n, len(found))
    assert all(v == value(key) for key, v in found)
    return n


def write(path, writemap):
    with opened(path, writemap) as e:
        while True:
            with e.begin(write=True) as t:
                (n,) = NUMBER.unpack(t.get(b"counter"))
                t.put(b"counter", NUMBER.pack(n + 1))
                t.put(b"n" + NUMBER.pack(n), value(n))
                t.put(b"x%d" % (n % 50), os.urandom(8) * (n % 700))
                t.delete(b"x%d" % ((n + 25) % 50))
            os.write(1, b"%d\n" % n)


def read(path, writemap):
    with opened(path, writemap) as e:
        while True:
            with e.begin() as t:
                (n,) = NUMBER.unpack(t.get(b"counter"))
                for k in range(max(0, n - 20), n):
                    assert t.get(b"n" + NUMBER.pack(k)) == value(k), (n, k)
                assert t.get(b"n" + NUMBER.pack(n)) is None
            os.write(1, b"1\n")


def main(directory, rounds=4, seed=1):
    draw = random.Random(int(seed))
    for writemap in "-w":
        path = os.path.join(directory, "lmdb" + writemap)
        with opened(path, writemap) as e, e.begin(write=True) as t:
            t.put(b"counter", NUMBER.pack(0))
        size = os.path.getsize(path + "/data.mdb")
        assert size == SIZE if writemap == "w" else size < SIZE, size
        for _ in range(int(rounds)):
            words = [sys.executable, __file__]
            # Not buffered: `communicate` does not know of what `readline` has read ahead.
            workers = [
                subprocess.Popen([*words, what, path, writemap], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
                for what in ("write", "write", "read")
            ]
            committed = []
            for worker in draw.sample(workers, len(workers)):
                for _ in range(draw.randrange(1, 20)):
                    line = worker.stdout.readline()
                    assert line, worker.stderr.read().decode()
                    committed += [int(line)] if worker is not workers[2] else []
                worker.send_signal(signal.SIGKILL)
            for worker in workers:
                rest, errors = worker.communicate()
                assert worker.returncode == -signal.SIGKILL, (worker.returncode, errors.decode())
                committed += [int(line) for line in rest.split(b"\n")[:-1]] if worker is not workers[2] else []
            n = check(path, writemap)
            assert len(set(committed)) == len(committed) and all(c < n for c in committed), (n, committed)
        with opened(path, writemap) as e:
            copy = path + ".copy"
            os.mkdir(copy)
            e.copy(copy, compact=True)
        assert check(copy, "-") == n
    print("right")


def verify(directory):
    """What has been left behind, as anybody finds it."""
    for writemap in "-w":
        check(os.path.join(directory, "lmdb" + writemap), writemap)
    print("right")


PARTS = {"write": write, "read": read, "verify": verify}

if __name__ == "__main__":
    if sys.argv[1] in PARTS:
        PARTS[sys.argv[1]](*sys.argv[2:])
    else:
        main(*sys.argv[1:])
