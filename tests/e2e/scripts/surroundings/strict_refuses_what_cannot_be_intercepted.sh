$B/bin/culvert run --strict -v $W/x.tar:$M -- busybox true
echo $?
$B/bin/culvert run --strict -v $W/x.tar:$M -- cat $M/hello.txt
c busybox echo run anyway
