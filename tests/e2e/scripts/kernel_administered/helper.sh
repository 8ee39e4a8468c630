mkdir /mnt/up && ln -s $C /mnt/up/mount.culvert && ln -s $C /mnt/up/mount.fuse.culvert \
    && mount -t overlay none -o lowerdir=/mnt/up:/usr/sbin /usr/sbin || exit 77
