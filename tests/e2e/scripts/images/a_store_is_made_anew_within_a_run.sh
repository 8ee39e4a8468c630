build 1000 $W/libp.so
settle
run true
run $IMAGES clean
# What the run was told of the store is wrong from then on; the slots lie elsewhere.
run sh -c '
    rm -rf /dev/shm/culvert-*/images
    for time in 1 2; do $IMAGES probe $W/libp.so $W/b/f; $IMAGES clean > $W/one; done
    $IMAGES clean
    LD_PRELOAD=$W/libp.so $IMAGES private libp.so'
: an index that is lost, and images that nobody finds
rm /dev/shm/culvert-*/images/*/index
known() {
    run true
    run env LD_PRELOAD=$W/libp.so $IMAGES private libp.so
}
known > $W/one
known
run $IMAGES clean
: the program lets nobody in, not itself
run sh -c 'rm -rf /dev/shm/culvert-*/images; umask 0777; $IMAGES probe $W/libp.so $W/b/f'
find /dev/shm/culvert-*/images -type d -printf '%m\n' | sort -u
