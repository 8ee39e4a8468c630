mkdir cipher
gocryptfs -q -init -scryptn 10 -extpass 'echo secret' cipher
run "type=fuse,way=adapter,\"command=gocryptfs -f -extpass 'echo secret' $PWD/cipher %f\"" '
    cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/file $M/; truncate -s 5000 $M/tree/big; cmp -n 5000 tree/big $M/tree/big
'
