build 1000 $W/libp.so
settle
run $IMAGES probe $W/libp.so $W/b/f
# What the words do happens to a program that has begun with what is there.
meanwhile() {
    rm -f $W/in $W/out
    mkfifo $W/in
    run $IMAGES wait $W/libp.so $W/b/f < $W/in > $W/out &
    exec 3> $W/in
    until grep -q ready $W/out; do sleep 0.01; done
    "$@"
    echo go >&3
    wait $! || echo status $?
    cat $W/out
}
meanwhile rm -rf /dev/shm/culvert-*/images
run $IMAGES probe $W/libp.so $W/b/f
test -n "$(image)" || echo there is no image
run $IMAGES probe $W/libp.so $W/b/f
: an index that is cut is no index
cut_indexes() { for i in /dev/shm/culvert-*/images/*/index; do truncate -s 100 $i; done; }
cut_indexes
run $IMAGES probe $W/libp.so $W/b/f
rm -rf /dev/shm/culvert-*/images/*
run $IMAGES probe $W/libp.so $W/b/f > /dev/null
: nor while it is used
meanwhile cut_indexes
: nothing can be written
chmod 0500 /dev/shm/culvert-*/images
rm -rf /dev/shm/culvert-*/images/* 2> /dev/null
run $IMAGES probe $W/libp.so $W/b/f
mount -o remount,noexec /dev/shm
run $IMAGES probe $W/libp.so $W/b/f
