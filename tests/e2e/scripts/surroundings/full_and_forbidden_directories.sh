mkdir cache
unshare -m bash -c 'mount -t tmpfs -o size=4k none cache; $B/bin/culvert run -v $W/x.tar.gz:$M -- cat $M/hello.txt' 2> /dev/null
