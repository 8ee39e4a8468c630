$C mount $S $T || exit 1
server=$(pgrep -f "culvert mount.*$T\$") || exit 1
echo content > $T/f
@open@
kill -@signal@ $server && tail --pid=$server -f /dev/null && echo ended
exec 5<&-
@after@
ls $T | wc -l
cat $S/f
