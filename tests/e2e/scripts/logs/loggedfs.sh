mkdir @base@/original && cd @base@ || exit 1
loggedfs -f -l @base@/original.log @base@/original > /dev/null 2>&1 &
logged=$!
for _ in $(seq 100); do mountpoint -q @base@/original && break; sleep 0.1; done
mountpoint -q @base@/original || exit 3
bash @script@ > /dev/null 2>&1
cd /
umount @base@/original
wait $logged
