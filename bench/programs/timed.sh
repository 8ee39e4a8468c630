# Inside a guest: how long programs take on the guest's own ext4 and on mounts over it, and how many
# requests reach the server. A line for each run: WORKLOAD|MOUNT|SECONDS|REQUESTS
. /helpers.sh

# requests DIR: how many so far.
requests() {
  culvert list | awk -v place="$1/m" '/^[^ ]/ { here = index($0 " ", place " ") }
    here && $1 ~ /^[0-9]+$/ && NF == 2 && $2 !~ /Forget/ { all += $1 } END { print all + 0 }'
}

# timed WORKLOAD COMMAND...: on $tree/m, with nothing in the kernel's caches.
timed() {
  what=$1
  shift
  sync
  echo 3 >/proc/sys/vm/drop_caches
  before=$(requests $tree)
  began=$(cut -d ' ' -f 1 /proc/uptime)
  "$@" >/tmp/out 2>&1 || echo "FAILED: $what on $mount: $(tail -n 3 /tmp/out)"
  ended=$(cut -d ' ' -f 1 /proc/uptime)
  echo "$what|$mount|$began $ended|$before|$(requests $tree)" | awk -F '|' '{
    split($3, time, " "); printf "%s|%s|%.2f|%d\n", $1, $2, time[2] - time[1], $5 - $4 }'
}

# Its ar is binutils', not busybox's.
kernel_part() {
  export PATH=/usr/bin:$PATH
  make -C $tree/m/build -s tinyconfig && make -C $tree/m/build -s $OBJECTS
}

insmod /loop.ko
truncate -s 600M /tmp/disk
/usr/bin/mke2fs -q -F -t ext4 /tmp/disk
mkdir -p /disk
mount -t ext4 -o loop /tmp/disk /disk || exit 1
kept=valid=100000,absent=100000
extended=$kept,extend=metadata+xattr
for round in $(seq ${ROUNDS:-3}); do
  for mount in ext4 Opt MDOpt AllOpt; do
    tree=/disk/$mount
    mkdir -p $tree/s $tree/m
    [ ! -e /build.tar ] || [ $round != 1 ] || {
      mkdir $tree/s/build
      [ $mount != ext4 ] || { rmdir $tree/s/build; mkdir -p $tree/m/build; }
      tar -xf /build.tar -C $tree/[sm]/build
    }
    case $mount in
      Opt) mount_at $tree without=passthrough ;;
      MDOpt) mount_at $tree $extended,without=passthrough ;;
      AllOpt) mount_at $tree $extended ;;
    esac
    timed untar tar -xf /source.tar -C $tree/m
    [ ! -e /build.tar ] || [ $round != 1 ] || timed build kernel_part
    [ $mount = ext4 ] || unmount $tree
    rm -rf $tree
  done
done
umount /disk
ended
