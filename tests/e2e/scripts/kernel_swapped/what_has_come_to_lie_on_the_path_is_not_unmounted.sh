mknod @there@/fuse c 10 229
chmod 666 @there@/fuse
mount --bind @there@/fuse /dev/fuse || exit 1
mkdir @there@/w
chown @user@:@user@ @there@/w
export W=@there@/w CULVERT=@culvert@
exec setpriv --reuid=@user@ --regid=@user@ --clear-groups -- bash -c "$0"
