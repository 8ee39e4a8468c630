cd /
umask 022
export B=$(ls -d /usr/lib/postgresql/*/bin \
    | tail -1) S=$(mktemp -d /tmp/culvert-pg.XXXXXX) D=$M/data PGOPTIONS=
chown postgres $S
chmod 755 $M
mkdir $D
chown postgres:postgres $D
chmod 700 $D
@way@ '$B/initdb -D $D -A trust > $S/init 2>&1; echo $?'
@way@ '$B/pg_ctl -w -D $D -l $S/log -o "-k $S -c listen_addresses=" start > $S/start 2>&1; echo $?'
@way@ 'psql -XAtq -h $S postgres -c "create table t as select generate_series(1, 1000) a" -c checkpoint -c "select sum(a) from t"; $B/pg_ctl -w -D $D -m fast stop > $S/stop 2>&1; echo $?'
stat -c %U $D/PG_VERSION
grep -ic 'panic\|fatal' $S/log
rm -rf $S
