mkdir $D/in
$C mount $D $D/in 2>&1
echo $?
$C mount $D $D && ls $D
$C umount $D
