set -e
cd @place@
tools=$PWD
culvert=@culvert@
cd target
operations="python3 $tools/operations.py"
same() {
    cmp -s $1 $2 && return
    echo "seed $seed: $3"; diff $1 $2 | head -20; cat said
    exit 1
}
for seed in $(seq @first@ @last@); do
    rm -rf l1 l2 ou ow fu fw o f
    mkdir -p l1/c/d l1/e l2/a l2/b/b l2/c/c l2/d/d l2/e/e ou ow fu fw o f
    for name in a/a b/b/c c/a c/c/c d/d/d e/e/e; do echo "lower $name" > l2/$name; done
    for name in c/d/e e/a; do echo "middle $name" > l1/$name; done
    printf "#!/bin/sh\necho ran\n" > l2/a/b; chmod 755 l2/a/b
    layers="lowerdir=$PWD/l1:$PWD/l2"
    ours() {
        $culvert run --no-private \
            --mount type=overlay,oci=all,$layers,upperdir=$PWD/$1u,workdir=$PWD/$1w,target=$PWD/o -- sh -ec "$2"
    }
    theirs() {
        fuse-overlayfs -o $layers,upperdir=$PWD/$1u,workdir=$PWD/$1w f 2> /dev/null
        sh -ec "$2" || { umount f; exit 1; }
        umount f
    }
    ours o "$operations steps o $seed > said; $operations tree o > wrote"
    theirs o "$operations tree f > read"
    same wrote read "fuse-overlayfs reads another tree"
    # What it shows at once is not always what it has made, after an exchange.
    theirs f "$operations steps f $seed > said"
    theirs f "$operations tree f > wrote"
    ours f "$operations tree o > read"
    same wrote read "another tree is read of fuse-overlayfs's"
done
echo same
