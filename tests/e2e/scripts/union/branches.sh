set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    # The same instructions to both: the branches, what is seen, and where something new lies.
    cat > instruct.sh <<X
base=\$PWD/\$1 mount=\$PWD/\$1/m number=0
while read instruction; do
    number=\$((number + 1))
    echo "\$instruction"
    setfattr -n user.mergerfs.branches -v "\$(echo "\$instruction" | sed "s|@|\$base/|g")" \$mount/.mergerfs
    getfattr --absolute-names --only-values -n user.mergerfs.branches \$mount/.mergerfs | sed "s|\$base/||g"
    echo
    getfattr --absolute-names --only-values -n user.mergerfs.srcmounts \$mount/.mergerfs | sed "s|\$base/||g"
    echo
    (cd \$mount && cat both; find . -not -name .mergerfs | sort; echo \$number > new\$number; mkdir -p d/\$number) 2>&1
done <<Y
+@c
+<@disk*=NC
->
-<
-@d*
+>@disk1=RO,1M
-@none
=@c=RO:@a
+<@b
-@c:@b
@b:@a:@disk2
+@c=NC,2K:@disk1
-@*/disk?
Y
X
    way() {
        for branch in a b c disk1 disk2; do
            mkdir -p $1/$branch/d
            echo $branch > $1/$branch/both
            echo $branch > $1/$branch/d/$branch
        done
        mkdir $1/m
    }
    for way in o r k; do way $way; done
    options=minfreespace=0,category.create=ff
    branches() { echo $PWD/$1/a=RW:$PWD/$1/b=RW; }
    mergerfs -o $options,use_ino,cache.attr=0,cache.entry=0,cache.negative_entry=0 $(branches o) $PWD/o/m
    sh instruct.sh o > o.out 2>&1
    umount o/m
    $culvert run -v $(branches r):$PWD/r/m:type=union,$options -- sh instruct.sh r > r.out 2>&1
    $culvert mount -t union -o $options,valid=0 $(branches k) $PWD/k/m
    sh instruct.sh k > k.out 2>&1
    $culvert umount k/m
    for way in o r k; do (cd $way; find a b c disk* | sort) >> $way.out; done
    for way in r k; do diff o.out $way.out > difference || { echo "$way:"; cat difference; }; done
    # Children of vfork(2), by which this shell runs programs, share its memory.
    $culvert run -v $(branches r):$PWD/r/m:type=union,$options -- sh -ec "
        cd $PWD/r/m
        setfattr -n user.mergerfs.branches -v +$PWD/r/disk1 .mergerfs
        cat d/disk1
        echo more > d/here
        setfattr -n user.mergerfs.branches -v -\> .mergerfs
        cat d/here
        echo more > d/there
    " > v.out
    [ "$(echo $(cat v.out))" = "disk1 more" ] && [ -e r/a/d/there ]
    [ $(wc -l < o.out) -gt 200 ] && echo compared

    # What is open on a branch stays open, and lets go of its file system when it is closed.
    mkdir -p disk held
    mount -t tmpfs none disk
    echo text > disk/f
    $culvert mount -t union -o $options $PWD/held:$PWD/disk $PWD/o/m
    exec 3< o/m/f
    setfattr -n user.mergerfs.branches -v "-$PWD/disk" o/m/.mergerfs
    [ "$(cat <&3)" = text ]
    [ "$(stat -L -c %s /proc/self/fd/3)" = 5 ]
    ! umount disk 2> said
    exec 3<&-
    number=0
    until umount disk 2> said; do
        number=$((number + 1))
        [ $number -lt 100 ] || { cat said; exit 1; }
        ls o/m > listed
    done
    $culvert umount o/m
    echo "let go"
'
