mkdir /mnt/up /mnt/a /mnt/b && ln -s $C /mnt/up/mount.culvert \
    && mount -t overlay none -o lowerdir=/mnt/up:/usr/sbin /usr/sbin || exit 77
echo content > $S/f
mount -t culvert -o type=passthrough,noatime,nodev,noexec,x-thing=1 $S /mnt/a && cat /mnt/a/f
mount -t culvert -o remount,ro $S /mnt/a 2> /dev/null
grep -c "/mnt/a fuse.culvert .*noexec" /proc/mounts
umount /mnt/a
mount -t culvert passthrough#$S /mnt/a && cat /mnt/a/f
umount /mnt/a
echo "$S /mnt/a culvert defaults,ro,_netdev,nofail 0 0" > /mnt/fstab
echo "$S /mnt/b culvert noauto,user 0 0" >> /mnt/fstab
mount -a -T /mnt/fstab
mount -a -T /mnt/fstab
cat /mnt/a/f
touch /mnt/a/g 2> /dev/null || echo read-only
mount -T /mnt/fstab /mnt/b
cat /mnt/b/f
grep -c "/mnt/[ab] fuse.culvert" /proc/mounts
umount /mnt/a /mnt/b
mount -t culvert -o type=floppy $S /mnt/a 2>&1 | grep -o "no driver .floppy."
$C umount --all
echo $?
