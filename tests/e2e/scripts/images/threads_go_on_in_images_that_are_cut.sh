# Three threads run, a fourth waits in a hook, for who opens the other end of a FIFO on a mount.
mkdir $W/t
cat > $W/threads.py << END
import os, sys, threading
place = sys.argv[1]
os.mkfifo(place + "/f")
read, ends = [], []
def reader():
    with open(place + "/f", "rb") as file:
        read.append(file.read())
def runner():
    while not ends:
        os.stat(place)
        sorted([3, 1, 2])
threads = [threading.Thread(target=one) for one in (reader, runner, runner, runner)]
for one in threads:
    one.start()
print("ready", flush=True)
sys.stdin.readline()
with open(place + "/f", "wb") as file:
    file.write(b"written")
threads[0].join()
ends.append(1)
for one in threads[1:]:
    one.join()
child = os.fork()
if child == 0:
    os._exit(0 if os.listdir(place) == ["f"] else 5)
print(read, os.waitpid(child, 0)[1], flush=True)
END
settle
memory() { $CULVERT run --mount type=memory,target=$W/t -- "$@"; }
for i in 1 2; do memory python3 -c pass; done
test -n "$(find /dev/shm -name libc.so.6 -path '*/images/*')" || echo there is no image
mkfifo $W/in
memory python3 $W/threads.py $W/t < $W/in > $W/out &
exec 3> $W/in
until grep -q ready $W/out; do sleep 0.01; done
for file in $(find /dev/shm/culvert-*/images -type f ! -name index); do
    chmod u+w $file
    truncate -s 0 $file
done
echo go >&3
wait $! || echo status $?
cat $W/out
