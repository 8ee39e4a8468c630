$C mount --restart -o driven $D $T && @program@ $D $T $(pgrep -of "culvert mount.*$T\$")
$C umount $T
cat $D/c
