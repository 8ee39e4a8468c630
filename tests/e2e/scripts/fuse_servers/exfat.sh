truncate -s 16M image
mkfs.exfat image > said
rm tree/link
run type=fuse.mount.exfat-fuse,source=image '
    cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/d/f1 $M/one; rm $M/tree/file; echo more >> $M/one
'
ended
fsck.exfat -n image
run type=fuse.mount.exfat-fuse,source=image 'cat $M/one; cmp tree/big $M/tree/big; ls $M/tree/d | wc -l' > seen
test "$(tr '\n' ' ' < seen)" = '1 more 59 '
