mkdir cipher
run "type=fuse,\"command=encfs --standard --extpass='echo secret' -f $PWD/cipher %m\"" '
    cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/file $M/; truncate -s 5000 $M/tree/big
'
test "$(ls -A cipher | wc -l)" = 3
ended
grep -rq hello cipher && exit 1
run "type=fuse,\"command=encfs --extpass='echo secret' -f $PWD/cipher %m\"" '
    cat $M/file; diff -r tree/d $M/tree/d; cmp -n 5000 tree/big $M/tree/big; wc -c < $M/tree/big
' > seen
test "$(tr '\n' ' ' < seen)" = 'hello 5000 '
