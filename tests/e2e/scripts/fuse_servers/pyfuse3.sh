run "type=fuse,\"command=/usr/bin/python3 '@server@' %m\"" '
    cp -r tree $M/; diff -r tree $M/tree; mv $M/tree/d/f1 $M/one; rm $M/tree/file; cat $M/one; ls $M/tree/d | wc -l
' > seen
test "$(tr '\n' ' ' < seen)" = '1 59 '
