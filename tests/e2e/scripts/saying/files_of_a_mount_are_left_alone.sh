echo a > $M/log
busybox echo b 2>> $M/log
cat $M/log
(busybox true) 2> $W/said
grep -c mounts $W/said
