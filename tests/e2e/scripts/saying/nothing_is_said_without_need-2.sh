python3 -c '
import os, fcntl

fcntl.fcntl(2, fcntl.F_SETFD, 1)
os.execv("/bin/busybox", ["busybox", "true"])
'
