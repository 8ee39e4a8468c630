mount -t tmpfs none $S
mkdir $S/a $S/b $S/c
for m in a b c; do mount -t tmpfs none $S/$m; done
python3 -c "
import os, sys

for place in (\"\", \"a/\", \"b/\"):
    for d in range(3):
        os.mkdir(sys.argv[1] + \"/\" + place + \"d%d\" % d)
        for f in range(500):
            with open(sys.argv[1] + \"/\" + place + \"d%d/f%d\" % (d, f), \"w\") as file:
                file.write(place + str(d))
" $S
ulimit -n 1024
$C mount $S $T || exit 1
# Opens so many files that all others are closed.
push() { for i in 1 2; do find $* -type f -exec cat {} + > /dev/null; done; }
all() { find $T -printf "$1\n" | sort; }
echo $(all %i | uniq -d | wc -l) $(all %D | uniq | wc -l) $(all x | wc -l)
# Somebody is in a directory that is moved, and above which another is: what is closed meanwhile is
# found there.
cd $T/a/d0
exec 5< $T/a/d1
stat -c %i . f7 > $D/before
mkdir $T/a/new
mv $T/a/d0 $T/a/new/in
mv $T/a/new $T/a/newer
mv $T/a/d1 $T/a/d9
push $T/b $T/d*
cat f8 /proc/self/fd/5/f9
stat -c %i . f7 | cmp - $D/before
echo more > made
exec 6< $T/a/newer/in/made
mv made f8
ln f8 second
rm f8
push $T/b $T/d*
stat -L -c %h /proc/self/fd/6
cat second
python3 -c "
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)
there = [os.open(sys.argv[1] + \"/b/d%d\" % d, os.O_PATH) for d in (0, 1)]
if libc.renameat2(
    -100, (sys.argv[1] + \"/b/d0\").encode(), -100, (sys.argv[1] + \"/b/d1\").encode(), 2
):
    print(os.strerror(ctypes.get_errno()))
os.system(
    \"for i in 1 2; do find \"
    + sys.argv[1]
    + \"/a \"
    + sys.argv[1]
    + \"/d? -type f -exec cat {} + > /dev/null; done\"
)
for d in there:
    print(open(os.open(\"f20\", os.O_RDONLY, dir_fd=d)).read())
" $T
cat $T/b/d0/f30
echo
# Between the file systems there are no links, and what is moved is copied.
ln $T/a/d9/f1 $T/b/link 2>&1 | grep -o "cross-device.*"
ln $T/a/d9/f1 $T/link 2>&1 | grep -o "cross-device.*"
python3 -c "
import os, sys

os.rename(sys.argv[1] + \"/a/d9/f1\", sys.argv[1] + \"/f1\")
" $T 2>&1 \
    | grep -o "Errno 18"
mv $T/a/d9 $T/c/copied
cat $T/c/copied/f1
ls $T/c/copied | wc -l
rmdir $T/c 2>&1 | grep -o "busy"
rm -r $T/b/*
ls $T/b
# One that is mounted later is seen, and so is what it has covered.
mkdir $T/late
mount -t tmpfs none $S/late
echo late > $S/late/file
for i in $(seq 500); do
    cat $T/late/file 2> /dev/null && break
    sleep 0.1
done
umount -l $S/late
for i in $(seq 500); do
    [ -e $T/late/file ] || break
    sleep 0.1
done
ls $T/late
cd /
exec 5<&- 6<&-
server=$(pgrep -f "culvert mount.*$T$")
$C umount $T && tail --pid=$server -f /dev/null && umount $S/a && umount $S/b && echo free
