cd $M/dir && busybox ls -1 | busybox sort
busybox cat a.txt
busybox find . | busybox sort
exec 5< .
busybox ls /dev/fd/5/ | busybox sort
