set -e
cd @place@
export culvert=@culvert@ options='@options@' original='@original@' mounted='@mounted@' steps=@program@ own='@own@' with='@with@'
unshare -m --propagation private sh -ec '
    cd target
    trap "[ ! -e device ] || losetup -d \$(cat device)" EXIT
    for way in original run mount; do
        export way
        rm -rf s m
        mkdir s m
        sh $steps prepare s
        case $way in
            original) bindfs -o "$original" s m ;;
            mount) $culvert mount $with -t bind -o "$own$mounted" $PWD/s $PWD/m ;;
        esac
        case $way in
            run) $culvert run --mount "type=bind,source=$PWD/s,target=$PWD/m,$options" -- sh $steps m > $way.out 2>&1 || true ;;
            *) sh $steps m > $way.out 2>&1 || true; umount m ;;
        esac
        diff original.out $way.out > difference || { echo "$options, $way:"; cat difference; }
    done
    [ $(wc -l < original.out) -ge @lines@ ] || cat original.out
    echo compared
    [ ! -e others.mount ] || cat others.mount
'
