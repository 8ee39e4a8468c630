mount -t tmpfs none $S # which gives handles of files, as not every file system does
cd $S && for i in $(seq 200); do
    mkdir -p d$i/e
    echo $i > d$i/f
done
cd /
ulimit -n 120
$C mount --restart -o valid=600 $S $T || exit 1
keeper=$(pgrep -of "culvert mount.*$T\$")
cd $T/d200/e
exec 5< $T/d199
for round in 1 2 3; do
    find $T > /dev/null
    find $T -depth > /dev/null
    server=$(cat /proc/$keeper/task/$keeper/children)
    kill -9 $server
    tail --pid=$server -f /dev/null
    ls ..
    cat ../f
    mkdir x$round
    ls
    ls /proc/self/fd/5/
    mv ../../d200/e ../../d200/g
    mv ../g ../e
done
rmdir x1 x2 x3
rm -r $T/d100
rmdir ../../d200/e && ls ..
cd /
exec 5<&-
$C umount $T
