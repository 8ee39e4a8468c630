run true
run $IMAGES clean
run $IMAGES clean
run sh -c 'grep "/libc.so.6$" /proc/self/maps' | grep -v /images/ > $W/libc
# One line is the code, and all are of one device and inode.
grep -c r-xp $W/libc
cut -d " " -f 4,5 $W/libc | sort -u | wc -l
set -- $(cut -d " " -f 5 $W/libc | head -1) $(sed 's/.* //; q' $W/libc)
test $1 = $(stat -c %i $2) || echo another inode
