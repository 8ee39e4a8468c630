# The extension `metadata` inside a guest: the same answers as without, and what the server hears
# of.
. /helpers.sh

mount_at /tmp/with extend=metadata,valid=100000,absent=100000
mount_at /tmp/without valid=100000,absent=100000
check "nothing was said of the mount" "$(grep -c extend /tmp/with/said)" 0
# 112 bytes of a name, 144 of a node, 65536 of each; the mount without has none.
memory=$(told /tmp/with extension:)
check "memory of its tables in KiB: $memory" $((memory >= 16384 && memory < 18000)) 1
check "without there is none" "$(told /tmp/without extension:)" 0
check "the same for programs" \
  "$(culvert list --json | grep -o '"extension": *[1-9][0-9]*' |
    awk -F : '{ print int($2 / 1024) }')" $memory
story /tmp/with >/tmp/said.with
story /tmp/without >/tmp/said.without
check "the same answers with and without" "$(diff /tmp/said.with /tmp/said.without | head -n 20)" ""

# Requests: a tree of 200 files, asked once, and again when the kernel has forgotten it.
for tree in /tmp/with /tmp/without; do
  i=0
  mkdir $tree/m/t
  while [ $i -lt 200 ]; do
    echo $i >$tree/m/t/$i
    i=$((i + 1))
  done
  forget
  # By names, not by a listing, which brings some entries by itself.
  cd $tree/m/t && stat $(seq 0 199) absent 2>/dev/null >/dev/null
  cd /
done
for tree in /tmp/with /tmp/without; do
  forget
  lookups=$(told $tree Lookup)
  attributes=$(told $tree Getattr)
  cd $tree/m/t
  i=0
  while [ $i -lt 200 ]; do
    set -- $(stat -c '%s' $i)
    [ $1 = $((${#i} + 1)) ] || check "size of $i in $tree" $1 $((${#i} + 1))
    i=$((i + 1))
  done
  stat absent >/dev/null 2>&1
  cd /
  lookups=$(($(told $tree Lookup) - lookups))
  attributes=$(($(told $tree Getattr) - attributes))
  echo "$tree: $lookups lookups, $attributes getattrs"
  eval "lookups_${tree##*/}=$lookups attributes_${tree##*/}=$attributes"
done
# Two names, or nodes, may have one place in a table of 65536: of 200 a pair does in one of four
# cases, three pairs do in one of hundreds.
check "lookups that the server hears of: $lookups_with" $((lookups_with <= 6)) 1
check "getattrs that the server hears of: $attributes_with" $((attributes_with <= 6)) 1
check "lookups without the extension are many" $((lookups_without > 200)) 1

# What a listing brought, asked by name when the kernel has forgotten it.
for tree in /tmp/with /tmp/without; do
  mkdir $tree/m/u
  for name in $(seq 0 19); do echo >$tree/m/u/$name; done
  forget
  ls -l $tree/m/u >/dev/null
  forget
  cd $tree/m/u
  lookups=$(told $tree Lookup)
  stat $(seq 0 19) >/dev/null
  lookups=$(($(told $tree Lookup) - lookups))
  cd /
  echo "$tree: of 20 names that were listed: $lookups lookups"
  eval "lookups_${tree##*/}=$lookups"
done
check "lookups that the server hears of, of names that were listed: $lookups_with" \
  $((lookups_with <= 6)) 1
check "without the extension it is all" $lookups_without 20

# Of xattrs that are not there the kernel keeps nothing.
for tree in /tmp/with /tmp/without; do
  cd $tree/m/t
  stat $(seq 0 49) >/dev/null
  getfattr -n security.capability $(seq 0 49) >/dev/null 2>&1
  xattrs=$(told $tree Getxattr)
  getfattr -n security.capability $(seq 0 49) >/dev/null 2>&1
  xattrs=$(($(told $tree Getxattr) - xattrs))
  cd /
  echo "$tree: $xattrs getxattrs"
  eval "xattrs_${tree##*/}=$xattrs"
done
check "xattrs that the server is asked for the second time: $xattrs_with" \
  $((xattrs_with <= 6)) 1
check "without the extension it is for each" $((xattrs_without >= 50)) 1
getfattr -n security.capability /tmp/with/m/t/1 2>/tmp/said >/dev/null
check "the answer is that there is none" "$(grep -c 'No such attribute' /tmp/said)" 1

# FORGET: what is gone is forgotten by the server too.
rm -r /tmp/with/m/t
forget
forget
server=$(told /tmp/with server)
# One that has another name still is held as long as its attributes are kept.
removed=
for file in /proc/$server/fd/*; do
  case $(readlink $file) in
    *'(deleted)') [ "$(stat -L -c %h $file)" != 0 ] || removed="$removed $(readlink $file)" ;;
  esac
done
check "removed files that the server keeps open" "$removed" ""
check "the server has files open at all" "$(($(ls /proc/$server/fd 2>/dev/null | wc -l) > 5))" 1

# Changes of others, which the server watches: seen when the kernel and the server have forgotten
# what was there, too. `cat` leaves the file open no longer than it reads.
mount_at /tmp/watched extend=metadata,valid=100000,absent=100000,watch
cd /tmp/watched/s
mkdir d
for name in f g h; do echo $name >d/$name; done
cd /
cat /tmp/watched/m/d/f /tmp/watched/m/d/g >/tmp/said
check "what is there" "$(cat /tmp/said)" "$(printf 'f\ng')"
stat /tmp/watched/m/d/none 2>/dev/null
# The directory's attributes are stale, so nothing is held of it.
chmod 700 /tmp/watched/m/d
forget
rm /tmp/watched/s/d/f
echo other >/tmp/watched/s/d/none
# A new file may get the number of the one that is gone.
echo new >/tmp/watched/s/d/new
tries=0
while [ $tries -lt 100 ] && [ -e /tmp/watched/m/d/f ]; do
  usleep 10000
  tries=$((tries + 1))
done
cat /tmp/watched/m/d/new >/tmp/said
check "a new file" "$(cat /tmp/said)" new
check "what others removed" "$(stat /tmp/watched/m/d/f 2>&1 | grep -c 'No such file')" 1
check "what others made" "$(cat /tmp/watched/m/d/none 2>&1)" other
unmount /tmp/watched

# Where the kernel refuses all of bpf(2).
culvert() { /refused /usr/bin/culvert "$@"; }
mount_at /tmp/refused extend=metadata+xattr,valid=100000,absent=100000
unset -f culvert
check "the mount says what was refused" \
  "$(grep -c 'extend=metadata+xattr is not used: .*not permitted' /tmp/refused/said)" 1
echo one >/tmp/refused/m/f
check "a refused mount goes on" "$(cat /tmp/refused/m/f)" one
check "and has no memory" "$(told /tmp/refused extension:)" 0
unmount /tmp/refused

# Without the module the mount goes on, and says so.
unmount /tmp/with
rmmod culvert_fuse_ext
check "the module is gone with its last mount" "$(grep -c culvert_fuse_ext /proc/modules)" 0
mount_at /tmp/with extend=metadata,valid=100000,absent=100000
check "the mount says so" "$(grep -c 'extend=metadata is not used: the module' /tmp/with/said)" 1
check "and goes on" "$(cat /tmp/with/m/b/none)" r
culvert umount --all
insmod /module.ko
ended
