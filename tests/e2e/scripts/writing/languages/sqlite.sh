cat > t.py << 'END'
import os, sqlite3, subprocess, sys

d = os.environ["M"] + "/t.db"


def connect():
    return sqlite3.connect(d, timeout=30, isolation_level=None)


if len(sys.argv) > 1:
    c = connect()
    for i in range(60):
        c.execute("begin immediate")
        (n,) = c.execute("select n from counter").fetchone()
        c.execute("update counter set n = ?", (n + 1,))
        c.execute("insert into log values (?, ?)", (sys.argv[1], n))
        c.execute("commit")
    sys.exit()
c = connect()
print(c.execute("pragma journal_mode").fetchone())
c.executescript(
    "pragma synchronous = normal; create table counter (n); insert into counter values (0); create table log (who, n unique)"
)
c.execute("create table t (a integer primary key, b text)")
c.execute("begin")
c.executemany("insert into t (b) values (?)", ((f"row {i}" * 20,) for i in range(3000)))
c.execute("commit")
c.execute("begin")
c.execute("delete from t where a % 2")
c.execute("rollback")
print(c.execute("select count(*), sum(length(b)) from t").fetchone())
c.execute("create index i on t (b)")
c.execute("delete from t where a % 3 = 0")
c.execute("vacuum")
print(
    c.execute("pragma integrity_check").fetchone(), c.execute("select count(*) from t").fetchone()
)
children = [subprocess.Popen([sys.executable, __file__, who]) for who in "ab"]
print([child.wait() for child in children])
print(
    c.execute("select n from counter").fetchone(),
    c.execute("select who, count(*) from log group by who").fetchall(),
    c.execute("pragma integrity_check").fetchone(),
)
o = connect()
c.execute("begin exclusive")
try:
    o.execute("pragma busy_timeout = 0")
    o.execute("select * from counter")
    print("NOT LOCKED")
except sqlite3.OperationalError as e:
    print(e)
c.execute("commit")
print(o.execute("select n from counter").fetchone())
o.execute("pragma journal_mode = persist")
o.execute("insert into counter values (7)")
o.execute("pragma journal_mode = truncate")
o.execute("insert into counter values (8)")
print(sorted(os.listdir(".")))
# A writer that dies in its transaction: the journal is rolled back by the next one.
pid = os.fork()
if pid == 0:
    k = connect()
    k.execute("pragma cache_size = 2")
    k.execute("begin")
    k.execute("update t set b = 'lost'")
    os.kill(os.getpid(), 9)
os.waitpid(pid, 0)
n = connect()
print(
    n.execute("select count(*) from t where b = 'lost'").fetchone(),
    n.execute("pragma integrity_check").fetchone(),
)
n.execute("attach 'other.db' as o")
n.execute("create table o.x as select * from t limit 10")
n.execute("begin")
n.execute("insert into x values (99999, 'q')")
n.execute("update counter set n = 1")
n.execute("commit")
print(n.execute("select count(*) from o.x").fetchone())
print(len("\n".join(n.iterdump())))
END
python3 t.py
command -v sqlite3 > /dev/null \
    && sqlite3 t.db "pragma integrity_check; select count(*) from t; .backup b.db" \
    && sqlite3 b.db "select sum(n) from counter"
rm -f *.db *-journal
