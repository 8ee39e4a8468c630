cat > $S/../again.py << 'E'
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
for turn in range(3):
    with mmap.mmap(file, 0) as mapped:
        mapped[turn] = mapped[(50 << 20) + turn] = 65 + turn
    os.pwrite(file, b'w', (60 << 20) + turn)
os.truncate(file, (100 << 20) - 5000)
with mmap.mmap(file, 0) as mapped:
    print(mapped[:3], mapped[50 << 20:(50 << 20) + 3], mapped[60 << 20:(60 << 20) + 3], len(mapped))
E
chmod 755 $S/..
$C run --no-private --page-memory 16M -v $N -- python3 $S/../again.py $T/large
$C run --no-private -v $N -- cmp $S/large $T/large
