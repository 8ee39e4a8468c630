build 1000 $W/libp.so
settle
run true
# As many bytes as may be are there, says the index: its third word.
printf '\0\0\0\20\0\0\0\0' > $W/bytes
run sh -c '
    dd if=$W/bytes of=$(echo /dev/shm/culvert-*/images/*/index) bs=8 seek=2 conv=notrunc 2> $W/dd || cat $W/dd
    $IMAGES probe $W/libp.so $W/b/f
    $IMAGES probe $W/libp.so $W/b/f'
echo $(image | wc -l) images
: the next run begins with an empty store
run $IMAGES probe $W/libp.so $W/b/f
echo $(image | wc -l) images
