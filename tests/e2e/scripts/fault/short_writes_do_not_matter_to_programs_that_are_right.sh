cd $M
seq 1 5000 > lines
md5sum lines
cp lines copy
cmp lines copy
cat lines >> copy
md5sum copy
mkdir x
(
    cd /usr/share
    tar c common-licenses
) | tar x -C x
diff -r /usr/share/common-licenses x/common-licenses
dd if=lines of=blocks bs=777 2> /dev/null
cmp lines blocks
python3 - << 'END'
import sqlite3
base = sqlite3.connect("base.db")
base.execute("create table t (n integer primary key, text)")
with base:
    base.executemany("insert into t values (?, ?)", ((n, str(n) * 50) for n in range(2000)))
with base:
    base.execute("delete from t where n % 3 = 0")
print(base.execute("select count(*), sum(length(text)) from t").fetchall(), base.execute("pragma integrity_check").fetchall())
END
ls
