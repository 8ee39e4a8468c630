exec 7< @source@
@culvert@ mount -f @words@ @source@ @target@ > @source@/out 2>&1 &
one=$!
until grep -q ' @target@ ' /proc/self/mountinfo \
    && stat @target@/p > /dev/null 2>&1; do sleep .01; done
until [ $(readlink /proc/$one/fd/7 | grep -c '^@source@$') = 0 ]; do sleep .01; done
readlink /proc/$one/fd/1
@culvert@ umount @target@
wait
