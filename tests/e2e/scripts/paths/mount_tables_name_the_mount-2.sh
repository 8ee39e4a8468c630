df --output=target $M $M/dir/a.txt
df $M > /dev/null && echo df works
stat -f -c %n $M
findmnt -n -o TARGET --target $M/dir
mountpoint $M
mountpoint -q $M/dir || echo no mountpoint
