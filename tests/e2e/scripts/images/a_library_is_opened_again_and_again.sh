build 1000 $W/libp.so
settle
run $IMAGES loop $W/libp.so $W/b/f
run $IMAGES loop $W/libp.so $W/b/f
