r=$(ls -td /dev/shm/culvert-65534/[0-9a-f]* /tmp/culvert-65534/[0-9a-f]* 2> /dev/null \
    | grep -v sites | head -n 1)
exec 9< $r/lock
chmod 500 $r
python3 -c '
import os, subprocess

for i in 1, 2:
    if os.fork() == 0:
        os.execv("/bin/busybox", ["busybox", "true"])
    os.wait()
'
chmod 700 $r
