set -e
cd @place@
tools=$PWD
culvert=@culvert@ prefix=@prefix@
cd target
own() { # OPTIONS COMMAND: with the overlay at o
    case @way@ in
        image)
            for layer in l1 l2; do tar cf $layer.tar --xattrs --xattrs-include="*" -C $layer .; done
            layers=$options,lowerdir=$PWD/l1.tar:$PWD/l2.tar,upperdir=memory:
            $culvert run --no-private --mount type=overlay,$layers,target=$PWD/o -- sh -ec "$2" ;;
        run) $culvert run --no-private --mount type=overlay,$1,target=$PWD/o -- sh -ec "$2" ;;
        mount)
            $culvert mount -t overlay -o $1 overlay $PWD/o
            sh -ec "$2" || { $culvert umount $PWD/o; return 1; }
            $culvert umount $PWD/o ;;
    esac
}
kernels() {
    mount -t overlay -o $1,index=off,metacopy=off,xino=off$plain overlay k
    sh -ec "$2" || { umount k; return 1; }
    umount k
}
same() {
    cmp -s $1 $2 && return
    echo "seed $seed, $options: $3"; diff $1 $2 | head -20; cat ku.said
    exit 1
}
operations="python3 $tools/operations.py"
for seed in $(seq @first@ @last@); do
    rm -rf l1 l2 ku kw ou ow k o
    mkdir -p l1/c/d l1/e l1/b l1/d/d l2/a l2/b/b l2/c/c l2/d/d l2/e/e ku kw ou ow k o
    for name in a/a b/b/c c/a c/c/c d/d/d e/e/e; do echo "lower $name" > l2/$name; done
    for name in c/d/e e/a d/d/e; do echo "middle $name" > l1/$name; done
    printf "#!/bin/sh\necho ran\n" > l2/a/b; chmod 755 l2/a/b; cp -p l2/a/b l1/d/a
    ln -s nowhere l2/c/b; mknod l1/c/a c 0 0; setfattr -n $prefix.overlay.opaque -v y l1/e
    ln l2/b/b/c l2/b/b/d; setfattr -n user.test -v low l2/a/a
    options=redirect_dir=off plain=
    case $prefix in
        trusted) [ $((seed % 2)) = 0 ] || options=redirect_dir=on ;;
        user) options=userxattr ;;
    esac
    layers="$options,lowerdir=$PWD/l1:$PWD/l2"
    for one in k o; do
        how=$([ $one = k ] && echo kernels || echo own)
        $how "$layers,upperdir=$PWD/${one}u,workdir=$PWD/${one}w" \
            "$operations steps $one $seed > ${one}u.said; $operations tree $one > ${one}u.tree"
        $operations disk ${one}u $prefix > ${one}u.disk
    done
    same ku.said ou.said "other answers"
    same ku.tree ou.tree "another tree"
    [ @way@ != image ] || continue
    same ku.disk ou.disk "other marks"
    # Each reads what the other has written.
    kernels "$layers,upperdir=$PWD/ou,workdir=$PWD/ow" "$operations tree k > k.read"
    own "$layers,upperdir=$PWD/ku,workdir=$PWD/kw" "$operations tree o > o.read"
    same ku.tree k.read "the kernel reads another tree"
    same ku.tree o.read "another tree is read of the kernel's"
done
echo same
