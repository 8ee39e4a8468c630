build 1000 $W/libp.so
settle
forbidden=$W/forbidden
run() { $FILTERED $(cat $forbidden) $CULVERT run -v $W/a:$W/b -- "$@"; }
say() {
    run $IMAGES probe $W/libp.so $W/b/f
    test -n "$(image)" && echo made || echo none
    rm -rf /dev/shm/culvert-*/images
}
: a call that nobody makes, _sysctl, as containers forbid some
echo 156 > $forbidden
say
run true
run $IMAGES clean
rm -rf /dev/shm/culvert-*/images
: linkat is an error, then the end of who calls it
echo 265 > $forbidden
say
echo -265 > $forbidden
say
: a filter more than the command had
echo 156 > $forbidden
run $FILTERED -265 $IMAGES probe $W/libp.so $W/b/f
test -n "$(image)" && echo made || echo none
ls -d /dev/shm/culvert-*/*/rehearsal 2> /dev/null
