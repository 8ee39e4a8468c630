set -e
cd @place@
culvert=@culvert@
mkdir -p lower upper work root
seq 100 > lower/f; printf '#!/bin/sh\necho ran\n' > lower/s; chmod 755 lower/s
cat > program.py <<'END'
import mmap, os, subprocess, sys

def sh(text):
    return subprocess.run(["sh", "-c", text], capture_output=True, text=True, cwd=sys.argv[1]).stdout

os.chdir(sys.argv[1])
fd = os.open("f", os.O_RDONLY)
inode = os.fstat(fd).st_ino
mapped = mmap.mmap(fd, 0, prot=mmap.PROT_READ) if "mapped" in sys.argv else b"1\n2"
print(os.pread(fd, 3, 0), mapped[:3])
sh("printf XYZ | dd of=f conv=notrunc; chmod 600 f")
print(os.pread(fd, 3, 0), mapped[:3], os.fstat(fd).st_ino == inode == os.stat("f").st_ino)
sh("mv f g; echo more >> g")
print(os.pread(fd, 1000, 0)[-5:], oct(os.fstat(fd).st_mode), os.stat("g").st_ino == inode)
sh("rm g")
print(os.pread(fd, 3, 0), os.fstat(fd).st_nlink)
print(sh("./s; echo echo again >> s; ./s"))
END
run() {
    $culvert run --no-private --mount type=overlay,$1,target=$PWD/root -- \
        python3 program.py $PWD/root $2
}
run lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work mapped
# Mappings made before may show the copy, where that is no file of the kernel's.
run lowerdir=$PWD/lower,upperdir=memory:
tar cf lower.tar -C lower .
run lowerdir=$PWD/lower.tar,upperdir=memory:
