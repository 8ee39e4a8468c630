build 1000 $W/libp.so
settle
run true
fill=/dev/shm/fill
dd if=/dev/zero of=$fill bs=1M 2> /dev/null
run $IMAGES probe $W/libp.so $W/b/f
rm $fill
run $IMAGES probe $W/libp.so $W/b/f
ulimit -f 1
run $IMAGES probe $W/libp.so $W/b/f
# Nothing is known, and a write would be SIGXFSZ.
rm -rf /dev/shm/culvert-*/images
run $IMAGES probe $W/libp.so $W/b/f
# The command itself writes a few bytes; what it executes may write none.
rm -rf /dev/shm/culvert-*/images /dev/shm/culvert-*/sites/*
run sh -c 'ulimit -f 0; exec $IMAGES probe $W/libp.so $W/b/f | cat'
