truncate -s 16M image
/sbin/mkntfs -qF image > said 2>&1
run type=fuse.ntfs-3g,source=image '
    cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/d/f1 $M/one; rm $M/tree/file; echo more >> $M/one
'
ended
run type=fuse.ntfs-3g,source=image 'cat $M/one; cmp tree/big $M/tree/big; ls $M/tree/d | wc -l' > seen
test "$(tr '\n' ' ' < seen)" = '1 more 59 '
