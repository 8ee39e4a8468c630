python3 -c "
import os, sys

for d in range(20):
    os.mkdir(sys.argv[1] + \"/d%d\" % d)
    for f in range(1000):
        os.close(os.open(sys.argv[1] + \"/d%d/f%d\" % (d, f), os.O_CREAT | os.O_WRONLY))
" $D
echo last > $D/d19/f999
ulimit -n 1024
$C mount $D $T || exit 1
exec 5< $T/d0/f0
cd $T/d0
stat -c %i . f0 ../d1 > $S/before
find $T -type f -printf "%s\n" | sort | uniq -c | tr -s " "
server=$(pgrep -f "culvert mount.*$T\$")
[ $(ls /proc/$server/fd | wc -l) -lt 1024 ] && echo few
# What was closed is opened again: where somebody is, what is open, what is moved and removed.
stat -c %i . f0 ../d1 | cmp - $S/before && cat $T/d19/f999 && mv $T/d19/f999 f999 && cat f999
exec 6<> $T/d1/f1
rm $T/d1/f1
find $T > /dev/null
echo gone >&6
stat -L -c "%h %s" /proc/self/fd/6
rmdir $T/d2 2>&1 | grep -o "not empty"
mv $T/d2 $T/moved
find $T/moved | wc -l
cd /
exec 5<&- 6<&-
$C umount $T
