build 1000 $W/libp.so
settle
begin_anew() {
    rm -rf /dev/shm/culvert-*/images
    run true
    run true
}
shared() { run env LD_PRELOAD=$W/libp.so $IMAGES private libp.so; }
# At each call that making it takes.
for call in mkdir:1 chmod:1 linkat:1 fchmod:1 fsync:1 flock:1 sync_file_range:1 \
    pwrite64:1 pwrite64:2 pwrite64:3 pwrite64:4 pwrite64:5 \
    pwrite64:6 pwrite64:7 pwrite64:8 pwrite64:9; do
    begin_anew
    name=${call%:*}
    run strace -f -o $W/calls -e trace=$name -e inject=$name:signal=KILL:when=${call#*:} \
        $IMAGES probe $W/libp.so $W/b/f > $W/one 2>&1
    test $? = 137 || echo "$call: nobody was killed"
    # Nobody has room for what is left over, and nobody uses a half.
    run $IMAGES probe $W/libp.so $W/b/f
    shared > $W/one
    test "$(shared) $(image | wc -l)" = "no 1" || echo "$call: $(shared) $(image)"
done | sort | uniq -c | sed 's/^ *//'
# Many at once, some of whom are killed.
for time in 1 2 3 4 5; do
    rm -rf /dev/shm/culvert-*/images
    for one in 1 2 3 4 5 6; do
        run $IMAGES probe $W/libp.so $W/b/f &
    done
    for delay in 0.01 0.02 0.03; do
        timeout -s KILL $delay $CULVERT run -v $W/a:$W/b -- $IMAGES wait $W/libp.so $W/b/f < /dev/null > $W/one 2>&1 &
    done
    wait
done 2> $W/errors | sort | uniq -c | sed 's/^ *//'
run $IMAGES probe $W/libp.so $W/b/f
shared > $W/one
shared
