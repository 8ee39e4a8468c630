cd $M
python3 -c '
import sqlite3

c = sqlite3.connect("file:data.db?mode=ro", uri=True)
print(c.execute("select count(*), sum(n), max(s) from t").fetchone())
print(c.execute("select * from t where s = ?", ("row 77",)).fetchall())
print(c.execute("pragma integrity_check").fetchall())
'
sqlite3 -readonly data.db 'select count(*) from t; pragma mmap_size=10000000; select sum(n) from t;'
sqlite3 -readonly data.db .schema
sqlite3 'file:data.db?immutable=1' 'select avg(n) from t'
sqlite3 data.db 'insert into t values (9999, 1)'
sqlite3 -readonly data.db .dump | md5sum
