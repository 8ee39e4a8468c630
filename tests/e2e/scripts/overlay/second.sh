set -e
cd @place@
culvert=@culvert@
mkdir -p lower upper work root other
options=lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work
run() { $culvert run --no-private --mount type=overlay,$options,target=$PWD/root -- "$@"; }
refused() { grep -q "another run or mount writes to this upper layer" $1; }
mkfifo begun end
run sh -c "echo first > $PWD/root/f; echo > $PWD/begun; cat $PWD/end" > /dev/null &
read -r _ < begun
run true 2> said && exit 1
refused said && echo refused || cat said
echo > end; wait
if [ $(id -u) = 0 ] && [ -e /dev/fuse ]; then
    # In a namespace of its own: one that another program makes meanwhile would keep the mount.
    export -f run refused
    export culvert options
    unshare -m bash -ec '
        $culvert mount -t overlay -o $options overlay $PWD/other
        run true 2> said && exit 1
        refused said && echo refused by a mount || cat said
        $culvert umount $PWD/other
    '
fi
[ "$(run cat $PWD/root/f)" = first ] && echo after
