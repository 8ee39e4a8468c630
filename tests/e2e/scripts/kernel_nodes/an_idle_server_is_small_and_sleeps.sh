server() { pgrep -f "culvert mount.*$T$"; }
resident() { awk "/VmRSS/ { print \$2 }" /proc/$(server)/status; }
switches() { cat /proc/$(server)/task/*/status \
    | awk "/ctxt_switches/ { all += \$2 } END { print all }"; }
$C mount $WORDS $S $T || exit 1
python3 -c "
import os, sys

os.chdir(sys.argv[1])
for i in range(2000):
    os.close(os.open(str(i), os.O_CREAT | os.O_WRONLY))
for i in range(2000):
    os.chmod(str(i), 0o600)
for i in range(1000):
    with open(str(i), \"wb\") as file:
        file.write(bytes(4096))
    with open(str(i), \"rb\") as file:
        file.read()
with open(\"large\", \"wb\") as file:
    for i in range(16):
        file.write(bytes(1 << 20))
with open(\"large\", \"rb\") as file:
    while file.read(1 << 20):
        pass
for name in os.listdir():
    os.remove(name)
" $T
mount -i -o remount $T
for i in $(seq 300); do
    [ $(resident) -lt 10000 ] && break
    sleep 0.1
done
[ $(resident) -lt 10000 ] && echo small || resident
for i in $(seq 30); do
    before=$(switches)
    sleep 1
    [ $before = $(switches) ] && break
done
[ $i -lt 30 ] && echo sleeps
$C umount $T
