@helper@
echo x > $S/f
ln -s f $S/l
flags() { grep -o "$T fuse.culvert [^ ]*" /proc/mounts | sed "s/.* //; s/,user_id.*//"; }
mount -t culvert -o type=passthrough,restart $S $T
flags
mount -o remount,ro,noexec $T
flags
touch $T/g 2>&1 | grep -o Read-only
mount -o remount,rw,suid $T
flags
touch $T/g && ls $S
exec 5> $T/g
mount -o remount,ro $T 2>&1 | grep -c "open for writing"
exec 5>&-
umount $T
mount -t culvert -o ro,default_permissions,nonempty,nosymfollow $S $T
flags
cat $T/l 2>&1 | grep -o symbolic
mount -o remount,rw $T 2>&1 | grep -c "mounted read-only"
umount $T
mount -o remount,ro $S 2> /dev/null
echo $?
mount -t culvert $S $D/none 2> /dev/null
echo $?
