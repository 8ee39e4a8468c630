unshare -m bash -c 'mount -t tmpfs -o ro none /dev/shm; $B/bin/culvert run -v $W/x.tar.gz:$M -- sh -c "cat $M/hello.txt; exec 3<$M/lines.txt; busybox head -n 1 <&3"' 2> /dev/null
