"""LMDB environments whose opening is killed: what goes wrong on any file system, and that it does not where they are opened one at a time.

killed_lmdb_opens.py DIRECTORY [SECONDS] [SEED] [one-by-one]

In each round three processes open the environment at once and commit numbers, and one of them is killed at a time drawn from WINDOW seconds. Prints in how many rounds a number
was committed twice, or a transaction had a number that is too low. For hand-made trials: by the clock.

Who opens an environment alone sets the number of its last transaction in lock.mdb to 0 (`mdb_env_setup_locks`), and to that of the newest meta page when it has mapped the data
(`mdb_env_share_locks`). If it is killed in between, whoever waits for its lock meanwhile takes 0 for the last transaction: it goes on from meta page 0, which may be
the older one, with transaction 1. LMDB 0.9.24; these functions are the same in 0.9.36.
"""

import fcntl
import os
import random
import shutil
import signal
import struct
import sys
import time

import lmdb

NUMBER = struct.Struct(">Q")
WINDOW = float(os.environ.get("WINDOW", "0.005"))


class Database:
    def __init__(self, path, one_by_one):
        self.path, self.one_by_one = path, one_by_one
        self.begin()

    def begin(self):
        shutil.rmtree(self.path, ignore_errors=True)
        with self.opened() as e, e.begin(write=True) as t:
            t.put(b"counter", NUMBER.pack(0))
        self.number = self.transaction = 0

    def opened(self):
        with open(self.path + ".opening", "wb") as opening:
            if self.one_by_one:
                fcntl.flock(opening, fcntl.LOCK_EX)
            return lmdb.open(self.path, map_size=1 << 28, map_async=False, metasync=False)

    def commit(self, say):
        with self.opened() as e:
            for _ in range(2):
                with e.begin(write=True) as t:
                    (n,) = NUMBER.unpack(t.get(b"counter"))
                    t.put(b"counter", NUMBER.pack(n + 1))
                    t.put(b"x%d" % (n % 500), b"y" * 3000)
                    transaction = t.id()
                os.write(say, b"%d %d\n" % (n, transaction))

    def is_right(self, said):
        """Whether all that was said follows what was said before."""
        numbers = [n for n, _ in said]
        right = len(set(numbers)) == len(numbers) and all(n >= self.number and t > self.transaction for n, t in said)
        self.number = max([self.number, *(n + 1 for n in numbers)])
        self.transaction = max([self.transaction, *(t for _, t in said)])
        return right


def start(database, go):
    """A process that commits when it can read from `go`, and what it says."""
    hears, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        failed = 1
        try:
            os.read(go, 1)
            # A waiter that is killed when it has just been woken takes the wake-up with it, and
            # another may sleep for ever (handle_futex_death, kernel/futex/core.c).
            signal.signal(signal.SIGALRM, lambda *_: None)
            signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
            database.commit(says)
            failed = 0
        finally:
            os._exit(failed)
    os.close(says)
    return pid, hears


def heard(process, killed):
    pid, hears = process
    with open(hears) as said:
        lines = [tuple(map(int, line.split())) for line in said]
    _, status = os.waitpid(pid, 0)
    assert status == 0 or (killed and status == signal.SIGKILL), status
    return lines


def main(directory, seconds=60, seed=1, order=""):
    draw = random.Random(int(seed))
    database = Database(directory + "/opens", order == "one-by-one")
    end = time.monotonic() + float(seconds)
    rounds = wrong = 0
    while time.monotonic() < end:
        rounds += 1
        go, starts = os.pipe()
        processes = []
        for _ in range(3):
            processes.append(start(database, go))
        victim = draw.choice(processes)
        # All of them have the other end, too: a byte each.
        os.write(starts, b"123")
        until = time.monotonic() + draw.random() * WINDOW
        while time.monotonic() < until:
            pass
        os.kill(victim[0], signal.SIGKILL)
        said = [line for process in processes for line in heard(process, process is victim)]
        os.close(go)
        os.close(starts)
        if not database.is_right(said):
            wrong += 1
            if wrong == 1:
                print(f"round {rounds}: (number, transaction) {sorted(said)}", flush=True)
            # It is broken now.
            database.begin()
    print(f"{rounds} rounds, {wrong} with something twice", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
