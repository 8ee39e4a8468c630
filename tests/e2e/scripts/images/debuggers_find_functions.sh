build 1000 $W/libp.so
settle
run $IMAGES probe $W/libp.so $W/b/f
test -n "$(image)" || echo there is no image
debug() { gdb -nx -q -batch -iex 'set debuginfod enabled off' -iex 'set breakpoint pending on' "$@" 2>&1; }
: breakpoints in the program, in a library and in libc, and who called
run bash -c "$(declare -f debug); debug \"\$@\"" - -ex 'break main' -ex run -ex 'break probe' \
    -ex continue -ex continue -ex 'info symbol $pc' -ex backtrace \
    -ex 'break printf' -ex continue -ex 'info symbol $pc' -ex backtrace -ex continue \
    --args $IMAGES probe $W/libp.so $W/b/f > $W/said
grep -o -e '^.* in section .text of .*\.so.*' -e ' in main (' -e 'exited normally' $W/said |
    sed 's, [^ ]*/, ,'
grep -q 'exited normally' $W/said || cat $W/said
: a process that waits in libc is attached to
mkfifo $W/in
$CULVERT run -v $W/a:$W/b -- $IMAGES wait $W/libp.so $W/b/f < $W/in > $W/out &
exec 3> $W/in
until grep -q ready $W/out; do sleep 0.01; done
debug -p $! -ex backtrace > $W/said
grep -q '^#0 .* in [_GIlibc]*read ' $W/said && grep -q '^#.* main (' $W/said || cat $W/said
echo go >&3
wait $! || echo status $?
cat $W/out
