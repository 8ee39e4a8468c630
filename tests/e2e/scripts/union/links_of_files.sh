set -e
cd @place@
export culvert=@culvert@ program=@program@
unshare -m --propagation private sh -ec '
    mount -t tmpfs none target
    cd target
    for timeout in 1 100000; do
        options=minfreespace=0,category.create=ff,symlinkify=true,symlinkify_timeout=$timeout
        for way in o r k; do
            mkdir -p $way/a $way/b $way/m
            mount -t tmpfs -o size=20m none $way/a
            mount -t tmpfs -o size=40m none $way/b
            python3 $program fill $way/a $way/b
        done
        # Until each of them was changed more than a second ago, by whatever clock.
        python3 $program wait k/b/d
        mergerfs -o $options,use_ino,cache.attr=0,cache.entry=0 $PWD/o/a:$PWD/o/b $PWD/o/m
        python3 $program look o/m > o.out
        umount o/m
        $culvert run -v $PWD/r/a:$PWD/r/b:$PWD/r/m:type=union,$options -- python3 $program look $PWD/r/m > r.out
        $culvert mount -t union -o $options $PWD/k/a:$PWD/k/b $PWD/k/m
        python3 $program look k/m > k.out
        $culvert umount k/m
        for way in o r k; do
            (cd $way; find a b -type f | sort | xargs stat -c "%n %a %u %s %h"; find a b -type f | sort | xargs md5sum) >> $way.out
            sed -i "s|$PWD/$way/|PLACE/|g" $way.out
            umount --lazy $way/a $way/b
        done
        for way in r k; do
            diff o.out $way.out > difference || { echo "$timeout, $way:"; cat difference; }
        done
        grep -q "f 120444 PLACE/a/d/f" o.out && echo shown || echo not
    done
    echo compared
'
