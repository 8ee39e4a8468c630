# It leaves symbolic links out.
rm tree/link
run type=fuse.rclone,source=$PWD/tree 'diff -r tree $M; echo new > $M/new; rm $M/d/f1; mv $M/d/f2 $M/two'
ended
test "$(cat tree/new) $(cat tree/two)" = 'new 2'
test ! -e tree/d/f1
