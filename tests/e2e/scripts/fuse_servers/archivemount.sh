tar cf image.tar -C tree .
run type=fuse.archivemount,source=image.tar 'diff -r tree $M; echo new > $M/new'
ended
tar xOf image.tar --wildcards '*new' | grep -qx new
