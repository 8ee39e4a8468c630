for more in "" --restart; do
    $C mount $more --trace --log $T/log $S $T 2> /dev/null
    ls $T
    $C umount $T
    grep -c Opendir $T/log
    rm $T/log
done
