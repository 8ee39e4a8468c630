run true
run $LIMITS mdwe $IMAGES clean
build 1000 $W/libp.so
settle
run $LIMITS mdwe $IMAGES probe $W/libp.so $W/b/f
test -n "$(image)" || echo there is no image
run $LIMITS mdwe $IMAGES probe $W/libp.so $W/b/f
