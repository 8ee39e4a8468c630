"""PostgreSQL with its data directory on the mount: pgbench under load, a killed back end, a killed postmaster, recovery.

mapped_postgres.py DIRECTORY [TRANSACTIONS] [ROUNDS]    Not as root, whom initdb refuses.
"""

import glob
import os
import signal
import subprocess
import sys
import tempfile
import time

BIN = max(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
CLIENTS = 4

# Memory between back ends lies in files of the data directory, which all map; a small buffer cache,
# so that pages are read and written again and again.
SETTINGS = """
shared_memory_type = mmap
dynamic_shared_memory_type = mmap
min_dynamic_shared_memory = 1MB
shared_buffers = 1MB
max_wal_size = 32MB
min_wal_size = 32MB
checkpoint_timeout = 30s
checkpoint_completion_target = 0
listen_addresses = ''
log_min_messages = warning
restart_after_crash = on
autovacuum_naptime = 1s
parallel_setup_cost = 0
parallel_tuple_cost = 0
min_parallel_table_scan_size = 0
min_parallel_index_scan_size = 0
max_parallel_workers_per_gather = 2
max_connections = 20
"""


class Server:
    """One data directory and, mostly, its postmaster."""

    def __init__(self, data, sockets):
        self.data, self.sockets, self.log = data, sockets, sockets + "/log"
        self.environment = {**os.environ, "PGHOST": sockets, "PGUSER": "p", "PGDATABASE": "postgres", "LC_ALL": "C"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Whatever happened, no server stays."""
        if os.path.exists(self.data + "/postmaster.pid"):
            self.run("pg_ctl", "-D", self.data, "-m", "immediate", "stop", check=False)

    def run(self, program, *words, check=True):
        done = subprocess.run([f"{BIN}/{program}", *words], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if check and done.returncode:
            log = open(self.log).read()[-3000:] if os.path.exists(self.log) else ""
            raise SystemExit(f"{program} {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}{log}")
        return done.stdout.strip()

    def start(self):
        self.run("pg_ctl", "-D", self.data, "-w", "-t", "120", "-l", self.log, "-o", f"-k {self.sockets}", "start")

    def stop(self, mode="fast"):
        self.run("pg_ctl", "-D", self.data, "-w", "-t", "120", "-m", mode, "stop")

    def ask(self, *statements):
        return self.run("psql", "-XqAt", "-v", "ON_ERROR_STOP=1", *(word for text in statements for word in ("-c", text)))

    def processes(self):
        """The postmaster and its children."""
        postmaster = open(self.data + "/postmaster.pid").readline().strip()
        children = subprocess.run(["pgrep", "-P", postmaster], stdout=subprocess.PIPE, text=True).stdout
        return [int(pid) for pid in [postmaster, *children.split()]]

    def check(self):
        """pgbench's own law: every transaction moves one amount in all three tables, and is written down. Heap and indexes are whole."""
        sums = self.ask(
            "select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), "
            "(select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)"
        ).split("|")
        assert len(set(sums)) == 1, sums
        self.run("pg_amcheck", "--install-missing", "--heapallindexed", "-j", "2", "postgres")
        return int(self.ask("select count(*) from pgbench_history"))


def sockets():
    """A directory beside the mount whose name is short enough for a socket in it."""
    return tempfile.TemporaryDirectory(dir="/tmp")


def load(server, transactions):
    """pgbench that goes on until it is done or the server is not there."""
    words = [f"{BIN}/pgbench", "-n", "-c", str(CLIENTS), "-j", "2", "-t", str(transactions), "-P", "1"]
    return subprocess.Popen(words, env=server.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(server, rows):
    """Until the history has so many rows."""
    while int(server.ask("select count(*) from pgbench_history")) < rows:
        pass


def gone(processes):
    """Until no process of the dead postmaster's is left: the new one refuses to start before."""
    while any(os.path.exists(f"/proc/{pid}") for pid in processes):
        time.sleep(0.01)


def killed(server, rows, chosen):
    """Under load kills those of the server's processes that `chosen` takes; the number of rows that were committed by then."""
    busy = load(server, 1000000)
    wait_for(server, rows + 50)
    processes = server.processes()
    before = int(server.ask("select count(*) from pgbench_history"))
    for pid in chosen(processes):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    busy.communicate()
    return before, processes


def main(directory, transactions=150, rounds=1):
    transactions, rounds = int(transactions), int(rounds)
    with sockets() as place, Server(directory + "/data", place) as server:
        server.run("initdb", "-D", server.data, "-U", "p", "-A", "trust", "-k", "--no-locale", "-E", "UTF8", "--wal-segsize=4")
        with open(server.data + "/postgresql.conf", "a") as f:
            f.write(SETTINGS)
            # Processes are killed, not the kernel; trials of many rounds wait for the disk
            # nevertheless.
            f.write(f"fsync = {'on' if rounds > 1 else 'off'}\n")
        server.start()
        server.run("pgbench", "-i", "-q", "-s", "1")
        done = load(server, transactions)
        said = done.communicate()[0]
        assert done.returncode == 0, said
        rows = server.check()
        assert rows == CLIENTS * transactions, rows
        # Parallel workers and their leader share memory in mapped files.
        total = server.ask("select count(*), sum(aid), max(octet_length(filler)) from pgbench_accounts")
        assert total == "100000|5000050000|84", total
        server.ask("create index on pgbench_accounts (abalance, aid)", "vacuum full pgbench_accounts", "cluster pgbench_accounts using pgbench_accounts_pkey", "checkpoint")
        assert server.check() == rows

        for _ in range(rounds):
            # A back end dies: all others are sent away, and the postmaster recovers.
            serving = "select pid from pg_stat_activity where application_name = 'pgbench' limit 1"
            before, _ = killed(server, rows, lambda _: [int(server.ask(serving))])
            while server.run("psql", "-XqAt", "-c", "select 1", check=False) != "1":
                pass
            rows = server.check()
            assert rows >= before, f"{before} rows were committed, {rows} are there"
            # The postmaster dies, and its children see it; then all die at once.
            for chosen in (lambda all: all[:1], lambda all: all):
                before, processes = killed(server, rows, chosen)
                gone(processes)
                server.start()
                rows = server.check()
                assert rows >= before, f"{before} rows were committed, {rows} are there"

        server.stop()
        server.run("pg_checksums", "--check", "-D", server.data)
    print("right")


def verify(directory):
    """The data directory, stopped, as it was left."""
    with sockets() as place, Server(directory + "/data", place) as server:
        server.run("pg_checksums", "--check", "-D", server.data)
        server.start()
        server.check()
        server.stop()
    print("right")


if __name__ == "__main__":
    if sys.argv[1] == "verify":
        verify(sys.argv[2])
    else:
        main(*sys.argv[1:])
