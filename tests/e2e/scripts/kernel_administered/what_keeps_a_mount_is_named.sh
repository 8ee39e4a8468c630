mkdir $S/in
$C mount $S $T
$C mount -t memory memory $T/in
$C umount $T 2>&1 | grep -o "has mounts in it: .*/in$"
$C umount --all
$C mount $S $T
cd $T
$C umount . > $D/said 2>&1
cd /
grep -c "is used by bash ([0-9]*)$" $D/said
$C umount $T
$C umount $T 2>&1 | grep -c "culvert list"
$C umount /proc 2>&1 | grep -c "umount(8)"
