mkdir $D/s
echo x > $D/s/f
$C mount --restart $D/s $T
exec 5<> $T/f
rm -r $D/s
cat <&5
ls $T
touch $T/g 2>&1 | grep -o "No such file.*"
kill -9 $(cat /proc/$(pgrep -of "culvert mount.*$T\$")/task/*/children)
echo more >&5
echo $?
exec 5>&-
$C umount $T
echo $?
