build 1000 $W/libp.so
settle
known() {
    run $IMAGES probe $W/libp.so $W/b/f > /dev/null
    run $IMAGES clean
}
files() { find /dev/shm/culvert-*/images -type f ! -name index; }
each() { for file in $(files); do "$@" $file; done; }
# Whoever may write it, or makes that so.
cut() { chmod u+w $2; truncate -s $1 $2; chmod 400 $2; }
stays() { start run $IMAGES stay $W/b/f $W/libp.so > $W/first; }
# What goes on, and begins, after the words have been done to each image; and what is there then.
after() {
    stays
    tell
    echo -- "$@"
    each "$@"
    tell
    run $IMAGES probe $W/libp.so $W/b/f
    tell
    stop
    run $IMAGES probe $W/libp.so $W/b/f
    known
}
known > /dev/null
known
for size in 0 4096 400k -4096; do after cut $size; done
after rm
echo -- unreadable
stays
each chmod 0
tell
# Of root's rights nothing is left.
setpriv --bounding-set=-all --inh-caps=-all \
    $CULVERT run --no-private -v $W/a:$W/b -- $IMAGES probe $W/libp.so $W/b/f
tell
each chmod 400
stop
echo -- full
stays
dd if=/dev/zero of=/dev/shm/fill bs=1M 2> /dev/null
dd if=/dev/zero of=/dev/shm/fill.more bs=4k 2> /dev/null
each cut 0
tell
run $IMAGES probe $W/libp.so $W/b/f
tell
rm /dev/shm/fill*
run $IMAGES probe $W/libp.so $W/b/f
known
stop
echo -- as small as can be
mount -t tmpfs -o mode=1777,size=1m none /dev/shm || exit
stays
run $IMAGES probe $W/libp.so $W/b/f
tell
run $IMAGES probe $W/libp.so $W/b/f
stop
