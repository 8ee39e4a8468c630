for i in {100..199}; do printf $i > $S/$i; done
ulimit -n 120
$C mount --restart -o watch $S $T && @program@ $T $(pgrep -of "culvert mount.*$T\$")
$C umount $T
