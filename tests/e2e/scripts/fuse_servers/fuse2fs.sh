truncate -s 16M image
mkfs.ext4 -qF -E root_owner=$(id -u):$(id -g) image
run type=fuse.fuse2fs,source=image '
    cp -r tree $M/; diff -r tree $M/tree
    cd $M; echo new > new; mkdir d; mv tree/d/f1 d/one; ln new also; ln -s new link; rm tree/file
    truncate -s 300000 tree/big; setfattr -n user.a -v 1 new
    python3 -c "
import mmap
with open(\"tree/big\", \"r+b\") as file:
    mapping = mmap.mmap(file.fileno(), 0)
    mapping[100:105] = b\"HELLO\"
    mapping.flush()"
'
ended
e2fsck -fn image
test "$(debugfs -R 'cat also' image)" = new
test "$(debugfs -R 'cat d/one' image)" = 1
debugfs -R 'cat tree/big' image > big
test "$(wc -c < big) $(head -c 105 big | tail -c 5)" = '300000 HELLO'
debugfs -R 'ea_get new user.a' image | grep -q '"1"'
