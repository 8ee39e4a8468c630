# Two file systems that agree in all that stat(2) tells, with other text in the library.
for value in 1000 2000; do
    mkdir $W/$value
    build $value $W/$value/libp.so
    mksquashfs $W/$value $W/$value.squashfs -quiet -no-progress -all-root -all-time 1 -mkfs-time 1
    mkfs.erofs -T 1 -U 11111111-1111-1111-1111-111111111111 --all-root $W/$value.erofs $W/$value
done > $W/made 2>&1 || cat $W/made
mkdir $W/mounted
for kind in squashfs erofs; do
    for value in 1000 2000 1000; do
        mount -t $kind -o ro,loop=$(losetup -f) $W/$value.$kind $W/mounted || exit
        stat -c '%i %s %Z' $W/mounted/libp.so >> $W/$kind
        run $IMAGES probe $W/mounted/libp.so $W/b/f
        run $IMAGES probe $W/mounted/libp.so $W/b/f
        umount $W/mounted
    done
    echo $(sort -u $W/$kind | wc -l) $kind, $(image | wc -l) images
done
