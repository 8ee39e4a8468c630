mkdir -p /run/systemd
mount -t tmpfs none /run/systemd
mkdir /run/systemd/journal
$C mount -o log=journal $S $T 2>&1 | grep -c "journal.*No such file"
python3 -c "
import socket, subprocess, os

listener = socket.socket(socket.AF_UNIX)
listener.bind(\"/run/systemd/journal/stdout\")
listener.listen()
subprocess.run(
    [os.environ[\"C\"], \"mount\", \"--trace\", \"-o\", \"log=journal\", os.environ[\"S\"], os.environ[\"T\"]],
    check=True,
)
os.stat(os.environ[\"T\"])
os.listdir(os.environ[\"T\"])
with listener.accept()[0].makefile() as journal:
    head = [journal.readline() for _ in range(7)]
    print(head[0].strip(), journal.readline().split()[0])
"
$C umount $T
$C mount --trace --log $D/log $S $T && ls $T
$C umount $T
grep -c Opendir $D/log
