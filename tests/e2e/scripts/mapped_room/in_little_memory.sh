set -e
S=@value@/source T=@value@/target P=@program@ C=@culvert@
R='setpriv --reuid=65534 --regid=65534 --clear-groups'
mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm
$P make $S/large 100
for i in 1 2 3; do $P make $S/$i 20; done
$P make $S/4 40
chmod 666 $S/*
export CULVERT_LOG=@value@/log
touch @value@/log
chmod 666 @value@/log
N="$S:$T:driven,descriptor=no"
@script@
# The pager may have something to say after its programs have ended.
for lock in /dev/shm/culvert-*/*/lock; do [ ! -e $lock ] || flock -x $lock true; done
cat @value@/log >&2
