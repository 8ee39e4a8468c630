/usr/bin/python3 @program@ $M @rounds@
mdb_stat -efa lmdb-
mdb_copy -c lmdbw > copy
mdb_dump lmdbw | md5sum
