# Limits of a process are not those of others.
(ulimit -f 100; run cat $W/b/f)
copy | wc -l
run cat $W/b/f
copy | wc -l
echo -- few addresses
missed=0
for kilobytes in $(seq 10000 1000 40000); do
    rm -rf /run/mine/culvert-libraries
    with=$(ulimit -v $kilobytes; run cat $W/b/f 2>&1)
    without=$(ulimit -v $kilobytes; unset XDG_RUNTIME_DIR XDG_CACHE_HOME HOME; run cat $W/b/f 2>&1)
    test "$with" = "$without" || missed=$((missed + 1))
done
echo $missed
echo -- no room
mkdir /run/small
mount -t tmpfs -o mode=0700,size=1m none /run/small
rm -r /run/mine/culvert-libraries
export XDG_RUNTIME_DIR=/run/small
run cat $W/b/f
mount -o remount,size=50m /run/small
run cat $W/b/f
copy | wc -l
echo -- later
touch -d '11 minutes ago' /run/small/culvert-libraries/*
run cat $W/b/f
copy | wc -l
echo -- read-only
rm -r /run/small/culvert-libraries
mount -o remount,ro /run/small
run cat $W/b/f
