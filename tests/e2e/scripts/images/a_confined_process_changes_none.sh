build 1000 $W/libp.so
settle
run $IMAGES probe $W/libp.so $W/b/f
run $IMAGES attack $(image)
run $IMAGES probe $W/libp.so $W/b/f
# A sandbox that sees the store, but not to write.
i=$(image)
attack="chmod 0600 $i; echo changed > $i; rm -f $i; touch $i.new"
unshare --user --map-root-user -m sh -c "
    mount -o remount,bind,ro /dev/shm || exit
    exec setpriv --no-new-privs --bounding-set=-all sh -c '$attack'" 2>&1 |
    sed 's/.*: //' | sort | uniq -c | sed 's/^ *//'
run $IMAGES probe $W/libp.so $W/b/f
