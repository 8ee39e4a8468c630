@culvert@ mount @source@ @target@ 2>&1 | grep -c already
mount -t tmpfs above @target@ && kill -TERM @server@
for i in $(seq 500); do
    [ -e /proc/@server@ ] || break
    sleep .01
done
grep -c " @target@ .* above " /proc/self/mountinfo
umount @target@
