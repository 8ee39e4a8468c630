# Programs whose handlers of a timer have a small stack, with threads and forks; the images go.
settle
for i in 1 2; do run $IMAGES clean > /dev/null; done
run $IMAGES clean
files() { find /dev/shm/culvert-*/images -type f ! -name index; }
for size in 0 0 4096 400k; do
    for one in 1 2 3 4; do
        how=
        test $one -gt 2 && how=own
        run timeout 60 $IMAGES timed $W/b/f $W/b/go $how > $W/out.$one &
        eval started$one=$!
    done
    for one in 1 2 3 4; do
        until grep -q ready $W/out.$one; do sleep 0.01; done
    done
    for file in $(files); do
        chmod u+w $file
        truncate -s $size $file
        chmod 400 $file
    done
    touch $W/a/go
    for one in 1 2 3 4; do
        eval wait \$started$one || echo status $?
        tail -n +2 $W/out.$one
    done
    rm $W/a/go
    # They are made anew.
    for i in 1 2; do run $IMAGES clean > /dev/null; done
    run $IMAGES clean
done
