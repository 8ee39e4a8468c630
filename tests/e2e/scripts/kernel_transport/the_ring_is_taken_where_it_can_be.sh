switch=/sys/module/fuse/parameters/enable_uring
echo N > $D/off
echo content > $S/f
tried() {
    "$@" $S $T 2> $D/said || {
        echo refused
        return
    }
    server=$(pgrep -of "culvert mount.*$T\$")
    cat /proc/$server/task/*/comm | grep -q "^queue" && echo ring || echo device
    cat $T/f > /dev/null
    $C umount $T
    tail --pid=$server -f /dev/null
    grep -c io_uring $D/said
}
tried $C mount
tried $C mount -o driven,valid=0
tried $C mount --with writeback-cache
echo except
tried $C mount --restart
tried $C mount --with posix-locks
tried $C mount -o transport=device
echo few
few() { (
    ulimit -n 32
    "$@"
); }
tried few $C mount
mount --bind $D/off $switch
echo off
tried $C mount
tried $C mount -o transport=ring
grep -o "switched off (root: echo 1 > $switch)" $D/said
umount $switch
