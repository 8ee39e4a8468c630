run true
run $LIMITS mdwe $IMAGES clean
build 1000 $W/libp.so
settle
run $LIMITS mdwe $IMAGES probe $W/libp.so $W/b/f
test -n "$(image)" || echo there is no image
run $LIMITS mdwe $IMAGES probe $W/libp.so $W/b/f
# Data that lies behind a hole: ld.so takes all rights away from it, and from the code.
holes $W/holes.so
settle
run $LIMITS mdwe $IMAGES probe $W/holes.so $W/b/f
run $LIMITS mdwe $IMAGES probe $W/holes.so $W/b/f
