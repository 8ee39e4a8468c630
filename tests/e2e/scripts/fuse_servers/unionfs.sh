mkdir upper
run type=fuse.unionfs,source=upper=RW:tree=RO,cow '
    diff -r tree $M
    echo more >> $M/file; rm $M/d/f1; mv $M/d/f2 $M/d/f0; mkdir $M/e; echo new > $M/e/new
    cat $M/file $M/d/f0 $M/e/new > seen; test ! -e $M/d/f1
'
test "$(tr '\n' ' ' < seen)" = 'hello more 2 new '
test "$(cat tree/file tree/d/f1 upper/e/new | tr '\n' ' ')" = 'hello 1 new '
