# Inside a guest: how long programs take on the guest's own ext4 and on mounts over it, and how many
# requests reach the server. A line for each run: WORKLOAD|MOUNT|SECONDS|REQUESTS|FOR-XATTRS
. /helpers.sh

# requests DIR: how many so far, and of these for xattrs.
requests() {
  culvert list 2>/dev/null | awk -v place="$1/m" '/^[^ ]/ { here = index($0 " ", place " ") }
    here && $1 ~ /^[0-9]+$/ && NF == 2 && $2 !~ /Forget|requests/ { all += $1 }
    here && $1 ~ /^[0-9]+$/ && $2 ~ /xattr/ { xattrs += $1 }
    END { print all + 0, xattrs + 0 }'
}

# timed WORKLOAD COMMAND...: on $tree/m, with nothing in the kernel's caches.
timed() {
  what=$1
  shift
  sync
  echo 3 >/proc/sys/vm/drop_caches
  before=$(requests $tree)
  began=$(cut -d ' ' -f 1 /proc/uptime)
  "$@" >/tmp/out 2>&1 || { echo "FAILED: $what on $mount:" && cat /tmp/out; }
  ended=$(cut -d ' ' -f 1 /proc/uptime)
  echo "$what|$mount|$began $ended $before $(requests $tree)" | awk -F '|' '{
    split($3, n, " "); printf "%s|%s|%.2f|%d|%d\n", $1, $2, n[2] - n[1], n[5] - n[3], n[6] - n[4] }'
}

# ar by its path, since busybox's xargs runs busybox's own, whatever PATH says.
kernel_part() {
  make -C $tree/m/build -s AR=/usr/bin/ar $OBJECTS
}

# begun OPTIONS [TYPE]: the mount at a new $tree/m of $tree/s; of ext4 both are one.
begun() {
  mkdir -p $tree/s $tree/m
  case $mount in
    ext4) rmdir $tree/s && ln -s m $tree/s ;;
    *) mount_at $tree "$@" ;;
  esac
}

over() {
  case $mount in ext4) ;; *) unmount $tree ;; esac
  rm -rf $tree
}

# What the paper's mounts have.
options() {
  case $mount in
    Opt) echo without=passthrough ;;
    MDOpt) echo $extended$more,without=passthrough ;;
    AllOpt) echo $extended$more ;;
  esac
}

kept=valid=100000,absent=100000
extended=$kept,extend=metadata+xattr
mounts='ext4 Opt MDOpt AllOpt'
more=

untar() {
  for round in 1 2 3; do
    for mount in $mounts; do
      tree=/disk/$mount
      begun $(options)
      timed untar tar -xf /source.tar -C $tree/m
      over
    done
  done
}

build() {
  for mount in $mounts; do
    tree=/disk/$mount
    begun $(options)
    mkdir $tree/s/build
    tar -xf /build.tar -C $tree/s/build
    timed build kernel_part
    over
  done
}

# Reads and writes of one file; each size so often that there is something to time.
io() {
  for mount in $mounts; do
    tree=/disk/$mount
    begun $(options)
    dd if=/dev/zero of=$tree/s/file bs=1M count=32 2>/dev/null
    for kind in rr sr rw sw; do
      for size in 4:16384 1024:64; do
        for threads in 1 32; do
          timed "$kind ${size%:*} $threads" \
            /timed io $tree/m/file $kind $((${size%:*} * 1024)) $threads ${size#*:}
        done
      done
    done
    over
  done
}

# Who answers a statx(2): the forced ones are the kernel's to ask for each time.
stats() {
  for mount in ext4 kernel module server; do
    tree=/disk/$mount
    case $mount in
      module) begun $extended ;;
      *) begun $kept ;;
    esac
    echo >$tree/s/file
    case $mount in module | server) forced=forced ;; *) forced= ;; esac
    /timed stat $tree/m/file 1
    timed stat /timed stat $tree/m/file 100000 $forced
    over
  done
}

# filebench's file server, 50 threads, each operation of it logged.
logged() {
  log=layer=log,log.file=/tmp/log
  for mount in ext4 Opt MDOpt AllOpt; do
    tree=/disk/$mount
    case $mount in
      MDOpt) more=+log,extend_log=/tmp/kernel.log ;;
      AllOpt) log=$log,log.data=no ;;
    esac
    begun $log,$(options)
    mkdir $tree/s/w
    /workload create $tree/s/w 1000 0
    mkdir $tree/s/w/10 $tree/s/w/11 $tree/s/w/12 $tree/s/w/13 $tree/s/w/14
    timed logged /workload fileserver $tree/m/w 1000 10 50
    over
    rm -f /tmp/log /tmp/kernel.log
  done
  more=
}

archives() {
  for size in 25:400 75:1200; do
    for mount in $mounts; do
      tree=/disk/$mount
      begun view=write,$(options) sdcard
      mkdir -p $tree/s/Android/obb/game
      # The sources of some kernel again and again.
      for part in $(seq $((${size%:*} / 25))); do cat /source.tar; done >$tree/s/Android/obb/game/obb
      timed "archive ${size%:*}" /timed archive $tree/m/Android/obb/game/obb ${size#*:}
      over
    done
  done
}

# What a boot leaves to be done is done first.
sleep 10
insmod /loop.ko
truncate -s 600M /tmp/disk
/usr/bin/mke2fs -q -F -t ext4 -E lazy_itable_init=0,lazy_journal_init=0 /tmp/disk
mkdir -p /disk
mount -t ext4 -o loop /tmp/disk /disk || exit 1
$1
umount /disk
ended
