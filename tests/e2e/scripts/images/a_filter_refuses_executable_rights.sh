# As MemoryDenyWriteExecute of systemd where PR_SET_MDWE is missing: mprotect(2) with PROT_EXEC fails.
build 1000 $W/libp.so
holes $W/holes.so
settle
run() { $FILTERED 10/4 $CULVERT run -v $W/a:$W/b -- "$@"; }
look() {
    run $IMAGES probe $W/libp.so $W/b/f
    run $IMAGES probe $W/holes.so $W/b/f
    run cat $W/b/f
}
look
test -n "$(image)" || echo there is no image
look
run $IMAGES clean
