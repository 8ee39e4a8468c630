build 1000 $W/libp.so
settle
known() {
    run $IMAGES probe $W/libp.so $W/b/f
    run $IMAGES clean | sed 's/[1-9][0-9]* kB/some/g'
}
known
known
# The kernel then puts its own pages behind ld.so.
run() { setarch -L $CULVERT run -v $W/a:$W/b -- "$@"; }
known
