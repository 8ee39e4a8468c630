cd @place@
echo text > source/file
chmod 600 source/file
as() { setpriv --reuid=$1 --regid=$1 --clear-groups stat -c '%u %a' target/file; }
looks() { for user in 1 65534 2 1 0 2; do as $user 2>&1; done; }
@culvert@ mount -t bind -o allow_other,mirror=1:65534,perms=0400:ad+x source target
looks
@culvert@ umount target
@culvert@ mount -t bind -o allow_other,mirror-only=1,perms=0400:ad+x source target
as 1
as 2 2> /dev/null || echo refused
as 1
@culvert@ umount target
