cd $M
echo 123 > pid
exec 5<> pid
busybox sh -c ': > /dev/fd/5; /usr/bin/wc -c pid; echo 123 > /dev/fd/5; /bin/cat pid; : > /dev/fd/5; /bin/true; echo 12 > /dev/fd/5'
od -c pid
busybox sh -c 'echo 1 > /dev/fd/5; /usr/bin/wc -c pid; echo 12 > /dev/fd/5'
od -c pid
