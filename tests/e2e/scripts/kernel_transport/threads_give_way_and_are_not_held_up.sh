echo content > $S/f
chmod 666 $S/f
$C mount -f -o transport=ring $S $T 2> $D/said &
until grep -q " $T " /proc/self/mountinfo; do sleep 0.05; done
server=$(pgrep -of "culvert mount.*$T\$")
cat > $D/brisk.py << END
import os, sys, time
end, done = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    os.chmod(sys.argv[1], 0o600 + done % 2)
    done += 1
print("in time" if done >= 100 else done)
END
# The highest class of a thread of a queue.
class() {
    for task in /proc/$server/task/*; do
        grep -q ^queue $task/comm && sed "s/(.*)/name/" $task/stat
    done | cut -d" " -f41 | sort -rn | head -n 1
}
python3 $D/brisk.py $T/f 8 > $D/alone &
load=$!
found=0
while [ $found = 0 ] && kill -0 $load 2> $D/none; do
    found=$(class)
done
kill $load 2> $D/none
echo alone $found
wait $load
for i in $(seq 100); do
    [ $(class) = 0 ] && break
    sleep 0.1
done
echo after $(class)
last=$(($(nproc) - 1))
taskset -c $last sh -c "while :; do :; done" &
other=$!
echo beside others: $(taskset -c $last python3 $D/brisk.py $T/f 3)
kill $other
wait $other
$C umount $T
