mkdir $M/d
echo x > $M/d/f
cd $M/d
exec 5< f 6< .
readlink /proc/self/fd/6
cat /proc/self/fd/5
ls /proc/self/fd/6/ .
python3 -c '
import os

print(
    [os.readlink("/proc/self/fd/%d" % os.open(name, os.O_RDONLY)) for name in ("f", ".", "../d/f")]
)
d = os.dup(6)
print(
    os.readlink("/proc/self/fd/%d" % d),
    os.stat("f", dir_fd=d).st_size,
    os.stat("../d/f", dir_fd=d).st_size,
    os.getcwd(),
)
os.fchdir(d)
print(os.getcwd(), sorted(os.listdir()))
'
