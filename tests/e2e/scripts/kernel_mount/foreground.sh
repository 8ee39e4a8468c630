@culvert@ mount -f --trace @source@ @target@ 2> @source@/log &
until [ -e @target@/log ]; do :; done
cat @target@/log > /dev/null
@culvert@ umount @target@
wait $!
echo $?
grep -c Lookup @source@/log
