export PATH=/usr/local/lib/culvert-tests/bin:$PATH
run 'type=fuse,"command=hello %m"' 'ls $M; cat $M/hello.txt' > seen
test "$(head -n 1 seen)" = hello.txt
mkdir data
run "type=fuse,\"command=simple --data-dir $PWD/data --mount-point %m\"" '
    cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/d/f1 $M/one; rm $M/tree/file; ln $M/one $M/two
    setfattr -n user.a -v 1 $M/one; getfattr --only-values -n user.a $M/two; stat -c " %h" $M/two
' > seen 2> said
test "$(cat seen)" = '1 2'
