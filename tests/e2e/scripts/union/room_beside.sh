set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    mount -t tmpfs none target
    cd target
    # The first branch is full to its last byte: mergerfs 2.33 writes twice what there was room for in part,
    # and copies to the end of what is open with O_APPEND.
    way() {
        mkdir -p $1/a $1/b $1/c $1/m
        mount -t tmpfs -o size=1m none $1/a
        mount -t tmpfs -o size=4m none $1/b
        mount -t tmpfs -o size=8m none $1/c
        mkdir -m 750 $1/a/d
        mkdir -p $1/b/e $1/c/d
        head -c 524288 /dev/zero | tr "\0" o > $1/a/d/f
        head -c 524288 /dev/zero | tr "\0" p > $1/a/filler
        chmod 640 $1/a/d/f
        setfattr -n trusted.kept -v yes $1/a/d/f
    }
    cat > write.py <<X
import os, sys
path = sys.argv[1] + "/d/f"
def says(what, work):
    try: print(what, work())
    except OSError as error: print(what, error.strerror)
fd = os.open(path, os.O_RDWR)
os.lseek(fd, 0, os.SEEK_END)
says("first", lambda: os.write(fd, b"n" * 4096))
says("second", lambda: os.write(fd, b"m" * 100000))
says("size", lambda: os.fstat(fd).st_size)
says("by name", lambda: os.stat(path).st_size)
says("read", lambda: os.pread(fd, 3, 524287))
says("cut", lambda: os.ftruncate(fd, 526000))
says("in place", lambda: os.pwrite(fd, b"i", 7))
os.close(fd)
says("mode", lambda: oct(os.stat(path).st_mode))
says("branch", lambda: os.getxattr(path, "user.mergerfs.basepath").decode()[-1])
X
    after() {
        (cd $1; find a b c | sort | xargs stat -c "%n %f %u %s %h"; find a b c -type f | sort | xargs md5sum
            getfattr --absolute-names -m trusted -d */d/f) >> $1.out
        umount --lazy $1/a $1/b $1/c
    }
    # Ours alone: mergerfs leaves the file where it is, where the policy has chosen its own branch.
    for expected in "false a both" "mfs c both" "lus b both" "lfs b ours" "ff b ours" "epmfs c ours" "epff c ours" "msplfs c ours"; do
        set -- $expected
        policy=$1 branch=$2 whose=$3
        options=minfreespace=0,category.create=ff,moveonenospc=$policy
        way r; way k
        if [ $whose = both ]; then
            way o
            mergerfs -o $options,use_ino,cache.attr=0,cache.entry=0 $PWD/o/a:$PWD/o/b:$PWD/o/c $PWD/o/m
            python3 write.py o/m > o.out
            umount o/m
            after o
        fi
        $culvert run -v $PWD/r/a:$PWD/r/b:$PWD/r/c:$PWD/r/m:type=union,$options -- python3 write.py $PWD/r/m > r.out
        $culvert mount -t union -o $options $PWD/k/a:$PWD/k/b:$PWD/k/c $PWD/k/m
        python3 write.py k/m > k.out
        $culvert umount k/m
        after r; after k
        [ $whose = both ] || cp r.out o.out
        for way in r k; do
            diff o.out $way.out > difference || { echo "$policy, $way:"; cat difference; }
            grep -q "^branch $branch" $way.out || { echo "$policy, $way:"; cat $way.out; }
        done
    done
    echo compared
'
