build 1000 $W/libp.so
settle
run $IMAGES probe $W/libp.so $W/b/f
test -n "$(image)" || echo there is no image
run $IMAGES probe $W/libp.so $W/b/f
build 2000 $W/new.so
cat $W/new.so > $W/libp.so
run $IMAGES probe $W/libp.so $W/b/f
build 3000 $W/new.so
mv $W/new.so $W/libp.so
run $IMAGES probe $W/libp.so $W/b/f
settle
run $IMAGES probe $W/libp.so $W/b/f
run env LD_PRELOAD=$W/libp.so $IMAGES private libp.so
run $IMAGES probe $W/libp.so $W/b/f
