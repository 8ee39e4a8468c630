truncate -s 1M s
printf x | dd of=s bs=1 seek=500000 conv=notrunc status=none
cp --sparse=auto s t
cmp s t
fallocate -l 100000 f
stat -c %s f
fallocate -n -l 300000 f
stat -c %s f
seq 20000 > f
fallocate -p -o 8192 -l 8192 f
md5sum f
fallocate -z -o 100 -l 5000 f
md5sum f
stat -c %s f
tar -S -cf s.tar s
mkdir x
tar -S -xf s.tar -C x
cmp s x/s
rm s.tar
python3 -c '
import os

f = os.open("h", os.O_RDWR | os.O_CREAT)
os.pwrite(f, b"data", 0)
os.pwrite(f, b"more", 1 << 20)
os.ftruncate(f, 2 << 20)
print(
    os.lseek(f, 0, os.SEEK_DATA),
    os.lseek(f, 1 << 20, os.SEEK_DATA),
    os.lseek(f, 0, os.SEEK_HOLE) <= 65536,
    os.lseek(f, 65536, os.SEEK_DATA) == 1 << 20,
    os.lseek(f, 2 << 20, os.SEEK_END),
)
try:
    os.lseek(f, 2 << 20, os.SEEK_DATA)
except OSError as e:
    print(e.errno)
'
