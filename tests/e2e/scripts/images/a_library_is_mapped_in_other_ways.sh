build 1000 $W/libp.so
build 3000 $W/large.so -g3
dd if=/dev/zero of=$W/more bs=64k count=1 2> /dev/null
objcopy --add-section more=$W/more $W/large.so
settle
for library in libp large
do
    run $IMAGES probe $W/$library.so $W/b/f
    find /dev/shm -name $library.so -path '*/images/*' | grep -q . || echo there is no image
    run $IMAGES load $W/$library.so $W/b/f
done
