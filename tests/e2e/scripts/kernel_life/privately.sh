rm -rf @target@.d
mkdir -p @target@.d
chmod 777 @target@.d
@owned@
export S=@source@ T=@target@ D=@target@.d C=@culvert@
unshare -m bash -c 'mount -t tmpfs none /mnt && mknod /mnt/fuse c 10 229 && chmod 666 /mnt/fuse && mount --bind /mnt/fuse /dev/fuse && @acting@ bash -c "$0"' '@script@'
