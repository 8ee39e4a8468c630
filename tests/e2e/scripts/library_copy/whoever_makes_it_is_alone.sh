command -v strace > /dev/null || { echo "not tested: there is no strace"; exit; }
run cat $W/b/f
rm -r /run/mine/culvert-libraries/*
echo -- another one makes it
flock /run/mine/culvert-libraries $CULVERT run --no-private -v $W/a:$W/b -- cat $W/b/f
copy | wc -l
echo -- is killed
strace -f -qq -o $W/trace -e trace=pwrite64 -e inject=pwrite64:signal=KILL $CULVERT run -- true
run cat $W/b/f
copy | wc -l
echo -- many at once
rm -r /run/mine/culvert-libraries
for i in $(seq 40); do run cat $W/b/f & done | uniq -c | sed 's/ *//'
copy | wc -l
