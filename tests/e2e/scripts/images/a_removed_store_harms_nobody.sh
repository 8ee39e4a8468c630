build 1000 $W/libp.so
settle
run $IMAGES probe $W/libp.so $W/b/f
mkfifo $W/in
run $IMAGES wait $W/libp.so $W/b/f < $W/in > $W/out &
exec 3> $W/in
until grep -q ready $W/out; do sleep 0.01; done
rm -rf /dev/shm/culvert-*/images
echo go >&3
wait $! || echo status $?
cat $W/out
run $IMAGES probe $W/libp.so $W/b/f
test -n "$(image)" || echo there is no image
run $IMAGES probe $W/libp.so $W/b/f
: an index that is cut is no index
for i in /dev/shm/culvert-*/images/*/index
do
    truncate -s 100 $i
done
run $IMAGES probe $W/libp.so $W/b/f
: nothing can be written
chmod 0500 /dev/shm/culvert-*/images
rm -rf /dev/shm/culvert-*/images/* 2> /dev/null
run $IMAGES probe $W/libp.so $W/b/f
mount -o remount,noexec /dev/shm
run $IMAGES probe $W/libp.so $W/b/f
