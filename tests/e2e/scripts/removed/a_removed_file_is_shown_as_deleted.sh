cd $M && python3 -c '
import os

fds = [os.open("f", os.O_RDWR | os.O_CREAT), os.open("f", os.O_RDONLY)]
os.unlink("f")
os.mkdir("d")
fds.append(os.open("d", os.O_RDONLY))
os.rmdir("d")
print([os.readlink(f"/proc/self/fd/{fd}").endswith(" (deleted)") for fd in fds])
'
