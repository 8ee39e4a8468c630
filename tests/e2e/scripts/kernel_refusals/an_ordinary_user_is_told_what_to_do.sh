try() {
    "$C" mount "$@" 2>&1
    echo "= $?"
}
touch $D/file
try $S $D/file
try $S $D/none
try $D/none $T
try $S /usr/share
mkdir $D/full $D/s
touch $D/full/x
try $S $D/full
try $S $D/full
$C umount $D/full
echo ended $?
echo x > $D/s/f
$C mount $D/s $T
exec 5< $T/f
rm -r $D/s
cat <&5
ls $T
touch $T/g 2>&1
exec 5<&-
$C umount $T
echo ended $?
