mkdir d
chown 0:4 d
chmod 2777 d
setpriv --reuid=2 --regid=2 --groups=4 /usr/bin/python3 -c '
import os

os.umask(0)
os.close(os.open("d/f", os.O_CREAT | os.O_WRONLY, 0o2775))
'
stat -c %a d/f
