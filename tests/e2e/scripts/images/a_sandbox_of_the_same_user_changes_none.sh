build 1000 $W/libp.so
settle
run $IMAGES probe $W/libp.so $W/b/f
before=$(sha256sum $(image))
mkdir -p $W/root/proc
# Another one, that executes the same code meanwhile.
start run $IMAGES stay $W/b/f $W/libp.so > $W/first
other=$(pgrep -P $stays)
run $SANDBOXED $(image) $other $W/root $W/libp.so $W/b/f
test "$(sha256sum $(image))" = "$before" || echo it has changed
tell
stop
run env LD_PRELOAD=$W/libp.so $IMAGES private libp.so
