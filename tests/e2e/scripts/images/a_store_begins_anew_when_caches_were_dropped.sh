: the kernel maps pages of a tmpfs one by one when its caches were dropped
faults() { run $FAULTS /bin/true; }
index() { stat -c %i /dev/shm/culvert-*/images/*/index; }
run /bin/true
run /bin/true
before=$(faults)
was=$(index)
run /bin/true
test "$(index)" = "$was" || echo a store that is not worn was removed
sync
# An ordinary user may not: a store stays as it is.
dropped=
{ echo 1 > /proc/sys/vm/drop_caches; } 2>/dev/null && dropped=yes
run /bin/true
run /bin/true
after=$(faults)
test $after -le $((before + 20)) || echo $after page faults, $before before
if [ -n "$dropped" ]; then
    test "$(index)" != "$was" || echo the store is still there
fi
