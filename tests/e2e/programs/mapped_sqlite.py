"""SQLite with its files mapped: a rollback journal with mmap_size, and WAL, whose index is a file that all processes map and write.

mapped_sqlite.py DIRECTORY [ROUNDS] [SEED]   Four writers in each round, of which some are killed in the middle: what was committed is there.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

MAPPED = 64 << 20


def connect(path):
    c = sqlite3.connect(path, timeout=0, isolation_level=None)
    (mapped,) = c.execute(f"pragma mmap_size = {MAPPED}").fetchone()
    assert mapped == MAPPED, f"SQLite maps {mapped} bytes"
    return c


def again(c, statement):
    """Until nobody is in the way; SQLite's own waiting, up to 100 ms each time, starves among those who hurry."""
    while True:
        try:
            return c.execute(statement).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname.split("_")[1] != "BUSY":
                raise
            time.sleep(0.0005)


def check(path):
    c = connect(path)
    for pragma in ("integrity_check", "foreign_key_check"):
        assert again(c, f"pragma {pragma}") in ([("ok",)], []), pragma
    (counter,) = c.execute("select n from counter").fetchone()
    entries = c.execute("select n, who, length(text) from log order by n").fetchall()
    assert [n for n, _, _ in entries] == list(range(counter)), "every number once, none lost"
    assert all(length == 10 + n * 37 % 3000 for n, _, length in entries)
    c.close()
    return counter


def write(path, who):
    """Counts on, one transaction a number; says each number when it is committed. Ends when nobody listens."""
    c = connect(path)
    while True:
        again(c, "begin immediate")
        (n,) = c.execute("select n from counter").fetchone()
        c.execute("insert into log values (?, ?, ?)", (n, who, "x" * (10 + n * 37 % 3000)))
        c.execute("update counter set n = ?", (n + 1,))
        if n % 7 == 3:
            c.execute("savepoint s")
            c.execute("delete from log")
            c.execute("rollback to s")
        again(c, "commit")
        os.write(1, b"%d\n" % n)


def read(path):
    """Looks again and again: each time the counter and the log must agree."""
    c = connect(path)
    while True:
        c.execute("begin")
        ((n,),) = again(c, "select n from counter")
        found = c.execute("select count(*), max(n) from log").fetchone()
        c.execute("commit")
        assert found == (n, n - 1 if n else None), (n, found)
        os.write(1, b"1\n")


def start(path, what, who):
    words = [sys.executable, __file__, what, path, str(who)]
    # Not buffered: `communicate` does not know of what `readline` has read ahead.
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)


def kill_in_the_middle(path, rounds, draw):
    """Four writers and a reader; each is killed, or closed to, at some time."""
    said = 0
    for _ in range(rounds):
        workers = [start(path, "write", who) for who in range(4)] + [start(path, "read", "r")]
        committed = []
        # Their commits set the pace: nothing depends on a clock.
        for worker in draw.sample(workers, len(workers)):
            for _ in range(draw.randrange(1, 12)):
                line = worker.stdout.readline()
                assert line, worker.stderr.read().decode()
                if worker is not workers[4]:
                    committed.append(int(line))
            worker.send_signal(signal.SIGKILL)
        for worker in workers:
            rest, errors = worker.communicate()
            assert worker.returncode == -signal.SIGKILL, (worker.returncode, errors.decode())
            # The last line may be cut off where the writer was killed.
            if worker is not workers[4]:
                committed += [int(line) for line in rest.split(b"\n")[:-1]]
        counter = check(path)
        assert len(set(committed)) == len(committed), "one number was given twice"
        missing = [n for n in committed if n >= counter]
        assert not missing, f"committed and lost: {missing}"
        said += len(committed)
    return said


def journal(path, mode):
    c = connect(path)
    assert c.execute(f"pragma journal_mode = {mode}").fetchone() == (mode,)
    c.executescript("create table counter (n); insert into counter values (0); create table log (n integer primary key, who, text)")
    c.execute("create table t (a integer primary key, b text)")
    c.execute("begin")
    c.executemany("insert into t (b) values (?)", ((f"row {i} " * 30,) for i in range(20000)))
    c.execute("commit")
    # Another connection's map must see the file grow, change and shrink.
    other = connect(path)
    total = "select count(*), sum(length(b)), sum(a) from t"
    before = other.execute(total).fetchone()
    assert before == c.execute(total).fetchone() and before[0] == 20000
    c.execute("begin")
    c.execute("update t set b = 'short' where a % 2")
    # With a journal, a long transaction locks readers out.
    assert mode != "wal" or other.execute(total).fetchone() == before
    c.execute("rollback")
    c.execute("update t set b = b || 'longer' where a % 3 = 0")
    c.execute("create index i on t (b)")
    assert other.execute("select count(*) from t where b like '%longer'").fetchone() == (6666,)
    c.execute("delete from t where a > 100")
    assert other.execute(total).fetchone()[0] == 100
    c.execute("vacuum")
    if mode == "wal":
        c.execute("pragma wal_checkpoint(truncate)")
    assert os.path.getsize(path) < 200000 and other.execute(total).fetchone()[0] == 100
    assert other.execute("pragma integrity_check").fetchone() == ("ok",)


def main(directory, rounds=4, seed=1):
    draw = random.Random(int(seed))
    for mode in ("delete", "truncate", "wal"):
        path = os.path.join(directory, mode + ".db")
        journal(path, mode)
        if mode != "truncate":
            said = kill_in_the_middle(path, int(rounds), draw)
            assert said >= 4 * int(rounds)
        connect(path).close()
    print("right")


def verify(directory):
    """What has been left behind, as anybody finds it."""
    for mode in ("delete", "wal"):
        check(os.path.join(directory, mode + ".db"))
    print("right")


PARTS = {"write": write, "read": lambda path, who: read(path), "verify": verify}

if __name__ == "__main__":
    if sys.argv[1] in PARTS:
        PARTS[sys.argv[1]](*sys.argv[2:])
    else:
        main(*sys.argv[1:])
