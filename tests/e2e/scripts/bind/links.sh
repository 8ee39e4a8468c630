cd @place@
export program=@program@ culvert=@culvert@ options='resolve-symlinks@options@'
unshare -m --propagation private sh -ec '
    mount -t tmpfs none target
    cd target
    for way in original run mount; do
        mkdir -p s/d s/up m
        cd s
        echo f > f
        echo g > d/g
        ln -s f rel
        ln -s ../d/g up/sub
        ln -s sub2 up/chain
        ln -s $PWD/f up/sub2
        ln -s ../f d/up
        ln -s nowhere broken
        cd ..
        case $way in
            original) bindfs -o $options s m; sh $program m > $way.out 2>&1 || true; umount m ;;
            run) $culvert run --mount type=bind,source=$PWD/s,target=$PWD/m,$options -- sh $program m > $way.out 2>&1 || true ;;
            mount) $culvert mount -t bind -o $options s m; sh $program m > $way.out 2>&1 || true; $culvert umount m ;;
        esac
        find s | sort | while read -r name; do
            if [ -L $name ]; then echo "$name link"; elif [ -f $name ]; then echo "$name $(cat $name)"; else echo $name; fi
        done >> $way.out
        rm -r s
        diff original.out $way.out > difference || { echo "$options, $way:"; cat difference; }
    done
    grep -c . < original.out > /dev/null && echo compared
'
