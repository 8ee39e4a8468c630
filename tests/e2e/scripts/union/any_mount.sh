set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    umask 22
    mkdir -p up && ln -s $culvert up/mount.culvert
    mount -t overlay none -o lowerdir=$PWD/up:/usr/sbin /usr/sbin || exit 77
    cat > steps.sh <<X
m=\$1
cat \$m/fa \$m/fb \$m/ft \$m/fc \$m/fd \$m/odd
stat -c "%n %a" \$m/ft \$m/fd | sed "s|.*/||"
# Each branch does with what it has what its options say.
echo no > \$m/fb || echo read-only
echo made > \$m/new
mkdir \$m/made
echo text > \$m/made/f
mv \$m/made/f \$m/made/g
echo made > \$m/sub/new
rm \$m/fd || echo kept
echo \$(ls \$m)
X
    cat > want <<X
fa
fb
ft
fc
fd
odd
ft 600
fd 444
read-only
kept
fa fb fc fd ft made new odd sub
in a: made/g new
in c: sub/new
X
    for way in run mount fstab; do
        mkdir -p $way/a $way/b $way/c/sub $way/d/sub "$way/(odd)" $way/m
        cd $way
        for name in a b c d; do echo f$name > $name/f$name; done
        echo odd > "(odd)/odd"
        echo ft > ft
        tar cf t.tar ft
        inner="type=union,source=(type=bind,source=$PWD/d,perms=a-w,ro):$PWD/c,category.create=epff,minfreespace=0"
        list="(source=$PWD/a,layer=log,log.file=$PWD/log,log.format=loggedfs)=RW"
        list="$list:(source=$PWD/b,ro):(type=archive,source=$PWD/t.tar,umask=077)=RO:($inner)=RW:$PWD/(odd)=NC"
        options=minfreespace=0,category.create=epff
        case $way in
            run) $culvert run -v "$list:$PWD/m:type=union,$options" -- sh ../steps.sh $PWD/m ;;
            mount) $culvert mount -t union -o $options "$list" $PWD/m; sh ../steps.sh $PWD/m; umount m ;;
            fstab)
                echo "$list $PWD/m culvert type=union,$options 0 0" > fstab
                mount -a -T fstab
                grep -q " $PWD/m fuse.culvert " /proc/mounts
                sh ../steps.sh $PWD/m
                umount m ;;
        esac > ../$way.out 2> ../$way.errors
        cd ..
        (cd $way/a; echo in a: made/* new; cd ../c; echo in c: sub/*) >> $way.out
        diff want $way.out > difference || { echo "$way:"; cat difference $way.errors; }
        # The layer lies on its branch alone.
        number=0
        until grep -q "rename.*made/f" $way/log; do
            number=$((number + 1))
            [ $number -lt 1000 ] || { echo "$way:"; cat $way/log; exit 1; }
            sleep 0.01
        done
        ! grep "sub/new" $way/log
    done
    # What is wrong is said, with the branch.
    for list in "(type=floppy,source=$PWD)" "(type=fuse.x,source=$PWD)" "(source=$PWD/none)" \
        "(source=$PWD,fast)" "(source=$PWD,layer=fualt)" "(source=$PWD,place=host)" \
        "(source=$PWD,layer=log,log.file=x)"; do
        ! $culvert run -v "$list:$PWD/run:$PWD/new:type=union" -- true 2> said
        head -1 said | sed "s|$PWD|P|g; s/;.*//"
    done
'
