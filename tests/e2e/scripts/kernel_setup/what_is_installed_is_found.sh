export DESTDIR=/mnt/d
@upper@
BUILT=@built@ @install@ --prefix /opt/c > /dev/null && find /mnt/d ! -type d | LC_ALL=C sort
cp -P /mnt/d/sbin/mount.culvert /mnt/up/
mount --bind /mnt/d/opt /opt || exit 1
echo content > @source@/f
mount -t culvert @source@ /mnt/a && cat /mnt/a/f
umount /mnt/a
! command -v systemd-analyze > /dev/null ||
    systemd-analyze verify --man=no /opt/c/lib/systemd/system/culvert-extend.{service,socket} 2>&1
/opt/c/bin/culvert run -v @source@:/mnt/a -- cat /mnt/a/f
@install@ --prefix /opt/c --remove > /dev/null
find /mnt/d ! -type d
