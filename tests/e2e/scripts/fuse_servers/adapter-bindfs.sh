# One that opens /dev/fuse, reads it by several threads, and leaves the foreground in the second run.
mkdir many
for i in 1 2 3 4 5 6 7 8; do cp -r tree many/$i; done
run "type=fuse.bindfs,way=adapter,source=many" '
    all=
    for i in 1 2 3 4 5 6 7 8; do
        (cp -r $M/$i $M/$i.d; diff -r tree $M/$i.d; mv $M/$i.d/big $M/$i.d/d/; rm -r $M/$i) &
        all="$all $!"
    done
    for one in $all; do wait $one; done
    ls $M > listed
'
test "$(tr '\n' ' ' < listed)" = '1.d 2.d 3.d 4.d 5.d 6.d 7.d 8.d '
cmp tree/big many/8.d/d/big
run "type=fuse,way=adapter,\"command=bindfs %s %m\",source=tree" 'diff -r tree $M'
ended
# One that dies is named. A request that it had taken is ECONNABORTED, as of the kernel.
run "type=fuse.bindfs,way=adapter,source=tree" '
    cat $M/file; pkill -9 -f "^/[a-z/]*bindfs tree "
    cat $M/file || { sleep .2; cat $M/file; }
' > seen 2> said && exit 1
test "$(cat seen)" = hello
grep -q 'not connected' said
