mount -t tmpfs tmpfs /mnt
chmod 755 /mnt
mkdir /mnt/work
mount --move /dev/shm /mnt/work 2> /dev/null || mount --bind /dev/shm /mnt/work
W=/mnt/work/work real=/mnt/work/work/real evil=/mnt/work/work/evil look=/mnt/work/work/look
sed -i s:/dev/shm:/mnt/work: $look
mount -t tmpfs -o ro tmpfs /dev/shm
mkdir -m 755 /mnt/theirs /mnt/ours /mnt/theirs/ours
chown 65534 /mnt/theirs
chmod 700 /mnt/theirs /mnt/ours /mnt/theirs/ours
for run in theirs theirs/ours ours; do
    XDG_RUNTIME_DIR=/mnt/$run timeout 20 $culvert run --no-private -v $evil:$real -- $look
    echo $run $(ls /mnt/$run)
done
