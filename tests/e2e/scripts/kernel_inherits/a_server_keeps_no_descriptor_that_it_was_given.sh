exec 2> /dev/null
exec 7< @source@
mkfifo @source@/p
exec 8<> @source@/p
@culvert@ mount @words@ @source@ @target@ > @source@/out
echo $?
for one in $(pgrep -f 'culvert mount.*@target@$'); do
    (
        cd /proc/$one/fd
        readlink 7 8 63 | grep -c '^@source@'
        readlink 1
    )
done
stat @target@/p > /dev/null && echo served
@culvert@ umount @target@
:
