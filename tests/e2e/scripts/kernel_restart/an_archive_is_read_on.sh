cd @target@/common-licenses
exec 5< GPL-3
(
    cd /usr/share/common-licenses
    cksum *
) > @target@.want
for round in 1 2 3 4 5 6; do
    head -c 1000 <&5
    server=$(cat /proc/@keeper@/task/@keeper@/children)
    kill -9 $server
    tail --pid=$server -f /dev/null
    [ $((round % 2)) = 0 ] || mount -i -o remount @target@
    cksum * | cmp - @target@.want >&2
done > @target@.read
cmp -n 6000 @target@.read /usr/share/common-licenses/GPL-3 && echo same
stat -c %s @target@.read
