set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    mkdir -p o r k
    # What statfs(2) says of paths that all branches have, or some.
    way() {
        mkdir -p $1/a $1/b $1/c $1/m
        mount -t tmpfs -o size=20m none $1/a
        mount -t tmpfs -o size=40m none $1/b
        mount -t tmpfs -o size=30m none $1/c
        head -c 9000000 /dev/zero > $1/b/used
        mkdir $1/a/d $1/b/d $1/c/d $1/b/d/deep
        echo text > $1/c/d/file
    }
    branches() { echo $PWD/$1/a=RW:$PWD/$1/b=RO:$PWD/$1/c=NC; }
    cat > space.sh <<X
cd \$1
for path in . d d/deep d/file used; do stat -f -c "\$path %s %S %b %f %a" \$path; done
X
    for way in o r k; do way $way; done
    for options in statfs=base statfs=full statfs=full,statfs@ignore=ro statfs=base,statfs@ignore=nc statfs=full,statfs@ignore=nc; do
        their=$(echo $options | tr @ _) ours=$(echo $options | tr @ -)
        mergerfs -o $their,use_ino,cache.attr=0,cache.entry=0,cache.statfs=0 $(branches o) $PWD/o/m
        sh space.sh o/m > o.out
        umount o/m
        $culvert run -v $(branches r):$PWD/r/m:type=union,$ours -- sh space.sh $PWD/r/m > r.out
        $culvert mount -t union -o $ours $(branches k) $PWD/k/m
        sh space.sh k/m > k.out
        $culvert umount k/m
        for way in r k; do diff o.out $way.out > difference || { echo "$options, $way:"; cat difference; }; done
    done
    [ $(wc -l < o.out) = 5 ] && echo compared
'
