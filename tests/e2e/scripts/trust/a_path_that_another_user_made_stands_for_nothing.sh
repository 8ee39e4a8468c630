cp @borrowed@ $W/sends
chmod 755 $W/sends
inside="umask 077; echo secret > $real/f; sh -c 'cd /dev/shm/culvert-0; ls */shadows' < $real/f > $W/name; $W/sends listen $W/socket; cat $real/f"
for way in file path fifo; do
    rm -f $W/socket $W/name /dev/shm/of-mine
    timeout 60 $culvert run --no-private -v memory:$real -- bash -c "$inside" &
    until [ -S $W/socket ] || ! kill -0 $! 2> /dev/null; do :; done
    as 65533 $W/sends send /dev/shm/culvert-0/x/shadows/$(cat $W/name) $W/socket $way
    wait $!
    echo $way $?
done
