build 1000 $W/libp.so
holes $W/holes.so
settle
run true
mount -t tmpfs -o noexec,mode=0700 none $(echo /dev/shm/culvert-*/images) || exit
# Each library is found, and its image made.
known() { for library in $W/libp.so $W/holes.so; do run $IMAGES probe $library $W/b/f; done; }
known
find /dev/shm -name '*.so*' -path '*/images/*' -printf '%f\n' | sort
known
run $IMAGES loop $W/libp.so $W/b/f
run $IMAGES load $W/libp.so $W/b/f
run $LIMITS mdwe $IMAGES probe $W/libp.so $W/b/f
run $IMAGES clean | sed 's/[1-9][0-9]* kB/some/g'
# The list of mappings and tables of sites are what patching begins with.
run strace -f -o $W/calls -e trace=openat,open,openat2 $IMAGES probe $W/libp.so $W/b/f
grep -c -e /proc/self/maps -e /sites/ $W/calls
# A file that was changed is another one.
build 4000 $W/libp.so
run $IMAGES probe $W/libp.so $W/b/f
