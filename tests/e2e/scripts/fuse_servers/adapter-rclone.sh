# It leaves symbolic links out.
rm tree/link
run type=fuse.rclone,way=adapter,source=$PWD/tree 'diff -r tree $M; echo new > $M/new; rm $M/d/f1'
ended
test "$(cat tree/new)" = new
test ! -e tree/d/f1
