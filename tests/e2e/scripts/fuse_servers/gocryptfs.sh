mkdir cipher
gocryptfs -q -init -scryptn 10 -extpass 'echo secret' cipher
mount="type=fuse,\"command=gocryptfs -f -extpass 'echo secret' $PWD/cipher %f\""
run "$mount" 'cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/file $M/; truncate -s 5000 $M/tree/big'
ended
grep -rq hello cipher && exit 1
run "$mount" '
    cat $M/file; diff -r tree/d $M/tree/d; cmp -n 5000 tree/big $M/tree/big; wc -c < $M/tree/big
' > seen
test "$(tr '\n' ' ' < seen)" = 'hello 5000 '
