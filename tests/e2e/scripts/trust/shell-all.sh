set -u
mount -t tmpfs -o mode=1777 tmpfs /dev/shm || exit 77
culvert=@culvert@ lib=@with_file_name@ W=/dev/shm/work
mkdir -m 755 $W
real=$W/real evil=$W/evil
mkdir $real $evil
chmod 755 $real $evil
cd /
echo evil > $evil/f
look=$W/look
printf '#!/bin/sh
cat %s/f 2> /dev/null || echo real
' $real > $look
chmod 755 $look
unset CULVERT_RUN XDG_RUNTIME_DIR
as() {
    local uid=$1
    shift
    setpriv --reuid=$uid --regid=$uid --clear-groups -- "$@"
}
forged() {
    as 65534 mkdir -m ${2-755} -p $1
    as 65534 $culvert run --no-private -v $evil:$real -- sh -c "cp /dev/shm/culvert-65534/*/mounts $1; chmod 644 $1/mounts"
}
@script@
