unshare -Ur -m bash -c "$C mount $S $T && echo x > $T/f && mkdir $T/d && mv $T/f $T/d && cat $T/d/f && stat -c %u $T/d && $C umount $T"
stat -c %u $S/d
