"""Databases whose processes are killed at any moment: what they said that they had committed is there, and the whole is sound.

killed_databases.py ENGINE DIRECTORY [SECONDS] [SEED]

ENGINE: sqlite-wal, sqlite-delete, sqlite-truncate, sqlite-persist; lmdb-, lmdb-w (python3-lmdb); leveldb (python3-plyvel), berkeleydb (python3-bsddb3);
rocksdb, duckdb (`pip install rocksdict duckdb`).

Writers commit numbers, one a transaction, and say each when it is committed. After random times some of them are killed, and others begin beside those that go on; now
and then all are killed, and a process of its own checks. Prints how many were killed and how many commits were looked for. For hand-made trials: by the clock.
"""

import fcntl
import os
import random
import select
import signal
import struct
import subprocess
import sys
import time

NUMBER = struct.Struct(">Q")


def value(n):
    """What belongs to number n; some need pages of their own."""
    return (b"%d " % n) * (1 + n * 131 % 900)


class Sqlite:
    """`sqlite-MODE`: all writers at once, in a rollback journal's mode or WAL, with mapped files. Connections come and go."""

    writers = 4

    def __init__(self, directory, mode):
        self.path, self.mode = f"{directory}/{mode}.db", mode

    def connect(self):
        import sqlite3

        c = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        c.execute("pragma mmap_size = 67108864")
        # Processes are killed, not the machine.
        c.execute("pragma synchronous = normal")
        if self.mode != "wal":
            c.execute(f"pragma journal_mode = {self.mode}")
        return c

    def again(self, c, statement, words=()):
        import sqlite3

        while True:
            try:
                return c.execute(statement, words).fetchall()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname.split("_")[1] != "BUSY":
                    raise
                time.sleep(0.0005)

    def prepare(self):
        c = self.connect()
        c.execute(f"pragma journal_mode = {self.mode}")
        c.executescript("create table t (n integer primary key, v blob); create index i on t (length(v), n); create table counter (n); insert into counter values (0)")

    def write(self, say, draw):
        while True:
            c = self.again_open()
            for _ in range(draw.randrange(1, 30)):
                self.again(c, "begin immediate")
                ((n,),) = self.again(c, "select n from counter")
                self.again(c, "insert into t values (?, ?)", (n, value(n)))
                self.again(c, "update counter set n = n + 1")
                # Grows and shrinks.
                if n % 50 == 49:
                    self.again(c, "update t set v = x'' where n < ?", (n - 300,))
                if draw.random() < 0.05:
                    self.again(c, "rollback")
                    continue
                self.again(c, "commit")
                say(n)
            if draw.random() < 0.02:
                self.again(c, "vacuum")
            if draw.random() < 0.1 and self.mode == "wal":
                self.again(c, "pragma wal_checkpoint(truncate)")
            c.close()

    def again_open(self):
        import sqlite3

        while True:
            try:
                return self.connect()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname.split("_")[1] != "BUSY":
                    raise

    def check(self):
        c = self.again_open()
        assert self.again(c, "pragma integrity_check") == [("ok",)]
        ((counter,),) = self.again(c, "select n from counter")
        rows = self.again(c, "select n, v from t order by n")
        assert [n for n, _ in rows] == list(range(counter)), "every number once"
        assert all(v in (value(n), b"") for n, v in rows), "values"
        return counter


class Lmdb:
    """`lmdb-` and `lmdb-w`: several writers whose mutex is in a shared mapping; `w` writes by the mapping.

    They open it one at a time. Who has it alone sets the last transaction's number to 0 (`mdb_env_setup_locks`) and later to what it is (`mdb_env_share_locks`);
    if it is killed in between, whoever waited for it goes on from 0 and commits numbers once more, anywhere (killed_lmdb_opens.py).
    """

    writers = 3

    def __init__(self, directory, mode):
        self.path, self.map = f"{directory}/lmdb{mode}", mode == "w"

    def opened(self):
        import lmdb

        with open(self.path + ".opening", "wb") as opening:
            fcntl.flock(opening, fcntl.LOCK_EX)
            return lmdb.open(self.path, map_size=1 << 28, writemap=self.map, map_async=False, metasync=False)

    def prepare(self):
        with self.opened() as e, e.begin(write=True) as t:
            t.put(b"counter", NUMBER.pack(0))

    def write(self, say, draw):
        while True:
            with self.opened() as e:
                for _ in range(draw.randrange(1, 60)):
                    with e.begin(write=True) as t:
                        (n,) = NUMBER.unpack(t.get(b"counter"))
                        t.put(b"counter", NUMBER.pack(n + 1))
                        t.put(b"n" + NUMBER.pack(n), value(n))
                        if n >= 300:
                            t.put(b"n" + NUMBER.pack(n - 300), b"")
                    say(n)

    def check(self):
        with self.opened() as e, e.begin() as t:
            (n,) = NUMBER.unpack(t.get(b"counter"))
            found = [(NUMBER.unpack(key[1:])[0], v) for key, v in t.cursor() if key[:1] == b"n"]
        assert [key for key, _ in found] == list(range(n)), (n, len(found))
        assert all(v in (value(key), b"") for key, v in found)
        return n


class Alone:
    """A database that one process has open at a time: the next writer goes on where the killed one was."""

    writers = 1

    def __init__(self, directory, mode):
        self.path = f"{directory}/{type(self).__name__}"

    def prepare(self):
        with self.opened():
            pass

    def opened(self):
        raise NotImplementedError

    def write(self, say, draw):
        n = self.count()
        while True:
            with self.opened() as e:
                for _ in range(draw.randrange(1, 400)):
                    self.put(e, n)
                    say(n)
                    n += 1

    def count(self):
        with self.opened() as e:
            return len(self.all(e))

    def check(self):
        with self.opened() as e:
            found = self.all(e)
        assert [key for key, _ in found] == list(range(len(found))), "every number once"
        assert all(v == value(key) for key, v in found), "values"
        return len(found)


class LevelDb(Alone):
    def opened(self):
        import contextlib

        import plyvel

        return contextlib.closing(plyvel.DB(self.path, create_if_missing=True, write_buffer_size=1 << 20, paranoid_checks=True))

    def put(self, e, n):
        e.put(NUMBER.pack(n), value(n), sync=n % 8 == 0)

    def all(self, e):
        return [(NUMBER.unpack(key)[0], v) for key, v in e.iterator(verify_checksums=True)]


class RocksDb(Alone):
    """Reads and writes its tables by mappings."""

    def opened(self):
        import contextlib

        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_allow_mmap_reads(True)
        options.set_allow_mmap_writes(True)
        options.set_write_buffer_size(1 << 20)
        options.set_paranoid_checks(True)
        return contextlib.closing(rocksdict.Rdict(self.path, options))

    def put(self, e, n):
        e[NUMBER.pack(n)] = value(n)

    def all(self, e):
        return [(NUMBER.unpack(key)[0], v) for key, v in e.items()]


class DuckDb(Alone):
    def opened(self):
        import duckdb

        return duckdb.connect(self.path, config={"threads": 2, "checkpoint_threshold": "1MB"})

    def prepare(self):
        with self.opened() as e:
            e.execute("create table t (n bigint primary key, v blob)")

    def put(self, e, n):
        e.execute("insert into t values (?, ?)", (n, value(n)))

    def all(self, e):
        return e.execute("select n, v from t order by n").fetchall()


class BerkeleyDb(Alone):
    """An environment whose regions (cache, locks, log) are mapped files; recovery after each kill."""

    def opened(self):
        import contextlib

        from bsddb3 import db

        os.makedirs(self.path, exist_ok=True)
        e = db.DBEnv()
        e.set_cachesize(0, 1 << 20)
        e.open(self.path, db.DB_CREATE | db.DB_RECOVER | db.DB_INIT_MPOOL | db.DB_INIT_LOCK | db.DB_INIT_LOG | db.DB_INIT_TXN)
        e.log_set_config(db.DB_LOG_AUTO_REMOVE, 1)
        d = db.DB(e)
        d.open("t", dbtype=db.DB_BTREE, flags=db.DB_CREATE | db.DB_AUTO_COMMIT, mode=0o644)

        @contextlib.contextmanager
        def both():
            try:
                yield (e, d)
            finally:
                d.close()
                e.close()

        return both()

    def put(self, e, n):
        env, d = e
        t = env.txn_begin()
        d.put(NUMBER.pack(n), value(n), txn=t)
        t.commit()
        if n % 200 == 199:
            env.txn_checkpoint()

    def all(self, e):
        return [(NUMBER.unpack(key)[0], v) for key, v in e[1].items()]


ENGINES = {"sqlite": Sqlite, "lmdb": Lmdb, "leveldb": LevelDb, "rocksdb": RocksDb, "duckdb": DuckDb, "berkeleydb": BerkeleyDb}


def engine(name, directory):
    kind, _, mode = name.partition("-")
    return ENGINES[kind](directory, mode)


def start(*words):
    # Not buffered: `communicate` does not know of what a buffer has read ahead.
    return subprocess.Popen([sys.executable, __file__, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)


def hear(workers, seconds):
    """What any of them has said by then; what has ended by itself has failed."""
    found = select.select([w.stdout for w in workers], [], [], seconds)[0]
    for out in found:
        worker = next(w for w in workers if w.stdout is out)
        got = os.read(out.fileno(), 1 << 16)
        if not got:
            raise SystemExit(f"a writer ended: {worker.wait()}\n{worker.stderr.read().decode()}")
        worker.said = getattr(worker, "said", b"") + got
    if not found and seconds == 60:
        raise SystemExit(f"nothing heard from {[w.pid for w in workers]} for a minute")


def main(name, directory, seconds=60, seed=1):
    draw = random.Random(int(seed))
    e = engine(name, directory)
    e.prepare()
    end = time.monotonic() + float(seconds)
    kills = checks = total = 0
    while time.monotonic() < end:
        committed = set()
        workers = [start("write", name, directory, draw.randrange(1 << 30)) for _ in range(e.writers)]
        turns = draw.randrange(1, 6)
        patient = draw.random() < 0.7
        try:
            while workers:
                # Mostly each has committed something before.
                while patient and not all(hasattr(w, "said") for w in workers):
                    hear(workers, 60)
                # A moment that no step of theirs sets; meanwhile nobody waits for a full pipe.
                until = time.monotonic() + draw.choice((0.05, 0.3, 1.0)) * draw.random() + (0.25 if turns == 5 else 0)
                while (left := until - time.monotonic()) > 0:
                    hear(workers, left)
                turns -= 1
                dying = workers if turns <= 0 else draw.sample(workers, draw.randrange(1, len(workers) + 1))
                for worker in dying:
                    worker.send_signal(signal.SIGKILL)
                for worker in list(dying):
                    rest, errors = worker.communicate()
                    assert worker.returncode == -signal.SIGKILL, (worker.returncode, errors.decode())
                    lines = (getattr(worker, "said", b"") + rest).split(b"\n")[:-1]
                    numbers = {int(line) for line in lines}
                    assert len(numbers) == len(lines) and not numbers & committed, "one number was given twice"
                    committed |= numbers
                    kills += 1
                workers = [w for w in workers if w not in dying]
                if turns > 0:
                    workers += [start("write", name, directory, draw.randrange(1 << 30)) for _ in range(e.writers - len(workers))]
        finally:
            for worker in workers:
                worker.kill()
        checker = start("check", name, directory)
        try:
            out, errors = checker.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"{name}: checker {checker.pid} hangs")
        assert checker.returncode == 0, (kills, total, checker.returncode, errors.decode())
        count = int(out)
        missing = [n for n in committed if n >= count]
        assert not missing, f"committed and lost: {missing} of {count}"
        total += len(committed)
        checks += 1
    print(f"{name}: {kills} killed, {checks} checks, {total} commits found, {count} in all", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        engine(sys.argv[2], sys.argv[3]).write(lambda n: os.write(1, b"%d\n" % n), random.Random(int(sys.argv[4])))
    elif sys.argv[1] == "check":
        print(engine(sys.argv[2], sys.argv[3]).check())
    else:
        main(*sys.argv[1:])
