@upper@
ln -s @culvert@ /mnt/up/mount.culvert
mknod /mnt/fuse c 10 229 && chmod 666 /mnt/fuse && mount --bind /mnt/fuse /dev/fuse || exit 1
echo "@source@ @target@ culvert noauto,user,valid=0 0 0" > /mnt/fstab
mount --bind /mnt/fstab /etc/fstab || exit 77
chown 65534:65534 @source@ @target@
as() { setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@" 2>&1; }
as mount @target@
echo $?
as bash -c "echo x > @target@/f; stat -c %u @target@/f"
grep "@target@ fuse.culvert" /proc/mounts | grep -o "nosuid\|nodev\|noexec\|user_id=65534" | sort
as umount @target@
echo $?
grep -c @target@ /proc/mounts
cat @source@/f
