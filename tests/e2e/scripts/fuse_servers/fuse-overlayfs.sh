mkdir upper work
run type=fuse.fuse-overlayfs,lowerdir=$PWD/tree,upperdir=$PWD/upper,workdir=$PWD/work '
    diff -r tree $M
    echo more >> $M/file; rm $M/d/f1; mkdir $M/e; mv $M/d/f2 $M/e; ls $M $M/e > listed
    # Its own directory is still there when everything of it was forgotten.
    ls $M/e; cat $M/file $M/e/f2 > seen; test ! -e $M/d/f1
'
test "$(tr '\n' ' ' < seen)" = 'hello more 2 '
test "$(cat tree/d/f1) $(cat upper/e/f2)" = '1 2'
