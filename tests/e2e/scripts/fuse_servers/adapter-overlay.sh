# It moves what it reads into the device by splice(2), where it can.
mkdir upper work
run type=fuse.fuse-overlayfs,way=adapter,lowerdir=$PWD/tree,upperdir=$PWD/upper,workdir=$PWD/work '
    diff -r tree $M; cat $M/big $M/big $M/big $M/big $M/big > $M/more
    cat tree/big tree/big tree/big tree/big tree/big | cmp - $M/more; rm $M/file
'
ended
test ! -e upper/file -o -c upper/file
