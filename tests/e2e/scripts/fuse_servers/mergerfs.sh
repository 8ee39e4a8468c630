mkdir one two
run type=fuse.mergerfs,source=$PWD/one:$PWD/two,minfreespace=0,category.create=rand '
    cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/d/f1 $M/one; rm $M/tree/file; ls $M/tree/d | wc -l
' > seen
test "$(cat seen) $(cat one/one two/one 2> /dev/null)" = '59 1'
