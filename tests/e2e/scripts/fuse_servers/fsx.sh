printf %s '@configuration@' > conf
sed 's/ASYNC/false/' conf > sync
sed 's/ASYNC/true/; s/262144/90000/; s/65536/20000/' conf > async
mkdir source sync.d async.d
run type=fuse.bindfs,source=source '
    one() { "@fsx@" -f $1 -N 3000 -S $2 -P $1.d $M/$1 > $1.said 2>&1 || { tail -n 40 $1.said; exit 1; }; }
    one sync 11 & a=$!
    one async 12 & b=$!
    wait $a; wait $b
'
