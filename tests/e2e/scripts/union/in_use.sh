set -e
cd @place@
cat > hold.py <<'X'
import os, subprocess, sys
m = sys.argv[1]

def fill(name):
    return f"for n in $(seq 40); do head -c 100000 /dev/zero > {m}/{name}$n; done"

def sh(script, **more):
    return subprocess.run(["sh", "-ec", script], check=True, capture_output=True, **more).stdout

data = os.urandom(300000)
f = os.open(f"{m}/f", os.O_RDWR | os.O_CREAT, 0o600)
os.write(f, data)
# Another process takes the name, and uses what is free.
sh(f"rm {m}/f; {fill('n')}")
print(os.pread(f, len(data) + 1, 0) == data, os.fstat(f).st_nlink)
# Other programs have it, the last one alone.
os.lseek(f, 0, 0)
print(sh(f"cat <&{f}", pass_fds=[f]) == data)
hold = subprocess.Popen(["sh", "-ec", f"read go; {fill('o')}; exec cat <&{f}"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[f])
os.lseek(f, 0, 0)
os.write(f, b"more")
os.lseek(f, 0, 0)
os.close(f)
sh(f"rm {m}/n*; {fill('p')}")
print(hold.communicate(b"go\n")[0] == b"more" + data[4:], hold.returncode)
sh(f"rm {m}/[op]*")
# Nothing of it is left: more goes in, one after the other, than there is room for.
for turn in range(6):
    f = os.open(f"{m}/f", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(f, bytes(5000000))
    sh(f"rm {m}/f")
    os.close(f)
print(os.listdir(m))
X
memory=type=memory,size=16m
never=layer=fault,fault.rule=read+after=1000000+errno=EIO
for list in "($memory)" "($memory,$never)" "(type=union,source=$PWD/c=NC:($memory),minfreespace=0)"; do
    for above in "" ,$never; do
        mkdir -p b c m
        @culvert@ run -v "$list:$PWD/b:$PWD/m:type=union,category.create=ff,minfreespace=0$above" -- python3 hold.py $PWD/m 2>&1
        [ -z "$(ls -A b c | grep -v :)" ] || ls -A b c
    done
done
