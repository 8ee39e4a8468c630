$C mount -o suid,dev $S $T 2>&1 | grep -c "root.s mounts alone"
grep -c "$T .*nosuid,nodev" /proc/mounts
mkdir $S/in
$C mount $S $T/in 2>&1 | grep -c "beside them\|No such file"
$C mount $S $T/in 2>&1 | tail -1 | grep -c "^         "
$C umount $T
$C mount -o nosymfollow $S $T 2>&1 | grep -c "leave it out"
$C mount $S /usr 2>&1 | grep -c "may write to"
