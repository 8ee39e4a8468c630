for uid in 0 65533; do
    base=/dev/shm/culvert-$uid
    one=$base/????????????????
    try gone $uid $run sh -c "rm -rf $one; exec sh -c '$write'"
    # What is mounted is said twice.
    cut="echo x > \$(echo $one)/lock"
    try once $uid $run sh -c "rm $one/mounts; exec sh -c '$write'"
    try again $uid $run sh -c "$cut; exec sh -c '$write'"
    try mounts $uid $run sh -c "$cut; rm $one/mounts; exec sh -c '$write'"
    try fifo $uid $run sh -c "$cut; cd $one; mkfifo f; mv f mounts; exec sh -c '$write'"
    try damaged $uid $run sh -c "$cut; echo x > \$(echo $one)/mounts; exec sh -c '$write'"
    try mode $uid $run sh -c "chmod 755 $one; exec sh -c '$write'"
    try moved $uid $run sh -c "mv $base $W/../moved-$uid; exec sh -c '$write'"
    try link $uid $run python3 -c "
import os, sys

b, w, c = sys.argv[1:]
os.rename(b, w)
os.symlink(w, b)
os.execvp('sh', ['sh', '-c', c])
" $base $W/../away-$uid "$write"
    rm -f $base
    mkdir $W/bin-$uid
    cp $culvert $culvert-full $lib $W/bin-$uid
    chmod 711 $W/bin-$uid/libculvert.so
    [ $uid = 0 ] \
        || try unread $uid $W/bin-$uid/culvert run --no-private -v memory:$real -- sh -c "$write"
    mount --bind $W/bin-$uid $W/bin-$uid && mount -o remount,bind,noexec $W/bin-$uid
    chmod 755 $W/bin-$uid/*
    cp $culvert $W/alone-$uid
    cp $culvert-full $W
    ln -sf $W/bin-$uid/libculvert.so $W/libculvert.so
    try noexec $uid $W/alone-$uid run --no-private -v memory:$real -- sh -c "$write"
done
