set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    way() {
        mkdir -p $1/a $1/b $1/c $1/m
        mount -t tmpfs -o size=1m none $1/a
        mount -t tmpfs -o size=4m none $1/b
        mount -t tmpfs -o size=8m none $1/c
        mkdir -m 750 $1/a/d
        head -c 700000 /dev/zero | tr "\0" o > $1/a/d/f
        chmod 640 $1/a/d/f
    }
    after() {
        (cd $1; find a b c -type f; stat -c "%n %a %s" */d/f; tr -d o < $(echo */d/f) | wc -c)
        umount $1/a $1/b $1/c
    }
    cat > write.py <<X
import os, sys
path = sys.argv[1] + "/d/f"
fd = os.open(path, os.O_WRONLY | os.O_APPEND)
done = 0
try:
    while done < 2000000:
        done += os.write(fd, b"n" * 100000)
except OSError as error:
    print(error.strerror)
os.fchmod(fd, 0o600)
# The same by the file and by its name, at once.
print(done, os.fstat(fd).st_size, os.stat(path).st_size)
os.close(fd)
X
    for expected in "false a No space left on device 348576 1048576" "mfs c 2000000 2700000" "lfs b 2000000 2700000" "ff b 2000000 2700000"; do
        set -- $expected
        policy=$1 branch=$2
        shift 2
        options=minfreespace=0,category.create=ff,moveonenospc=$policy
        for way in r k; do way $way; done
        $culvert run -v $PWD/r/a:$PWD/r/b:$PWD/r/c:$PWD/r/m:type=union,$options -- python3 write.py $PWD/r/m > r.out
        $culvert mount -t union -o $options $PWD/k/a:$PWD/k/b:$PWD/k/c $PWD/k/m
        python3 write.py k/m > k.out
        $culvert umount k/m
        for way in r k; do after $way >> $way.out; done
        size=$(echo "$*" | grep -o "[0-9]*$")
        echo "$*" "$size" $branch/d/f $branch/d/f 600 $size $((size - 700000)) > want
        for way in r k; do
            echo $(cat $way.out) | diff want - > difference || { echo "$policy, $way:"; cat difference; }
        done
    done
    echo moved
'
