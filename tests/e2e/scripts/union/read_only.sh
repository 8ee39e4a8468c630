set -e
cd @place@
export culvert=@culvert@ policies='@policies@'
unshare -m --propagation private sh -ec '
    mount -t tmpfs none target
    cd target
    cat > steps.sh <<X
exec 2>&1
m=\$1 a=\$2
echo one > \$m/d/one; echo create \$?
mount -o remount,ro \$a
for turn in 1 2; do
    echo two > \$m/d/two\$turn; echo create \$?
    mkdir \$m/d/e\$turn; echo mkdir \$?
    ln -s x \$m/d/s\$turn; echo symlink \$?
    mkfifo \$m/d/p\$turn; echo mkfifo \$?
done
mv \$m/d/f \$m/d/g; echo mv \$?
chmod 600 \$m/d/f; echo chmod \$?
rm \$m/d/one; echo rm \$?
ln \$m/d/f \$m/d/h; echo ln \$?
sh -c "echo more >> \$m/d/f"; echo append \$?
cat \$m/d/f
ls \$m/d
mount -o remount,rw \$a
echo three > \$m/d/three; echo create \$?
ls \$a/d
X
    for policy in $policies; do
        options=minfreespace=0,category.create=$policy
        for way in o r k; do
            mkdir -p $way/a $way/b $way/m
            mount -t tmpfs -o size=20m none $way/a
            mount -t tmpfs -o size=40m none $way/b
            mkdir $way/a/d $way/b/d
            echo a > $way/a/d/f
        done
        mergerfs -o $options,use_ino,cache.attr=0,cache.entry=0 $PWD/o/a:$PWD/o/b $PWD/o/m
        sh steps.sh $PWD/o/m $PWD/o/a > o.out
        umount o/m
        $culvert run -v $PWD/r/a:$PWD/r/b:$PWD/r/m:type=union,$options -- sh steps.sh $PWD/r/m $PWD/r/a > r.out
        $culvert mount -t union -o $options $PWD/k/a:$PWD/k/b $PWD/k/m
        sh steps.sh $PWD/k/m $PWD/k/a > k.out
        $culvert umount k/m
        for way in o r k; do sed -i "s|$PWD/$way|PLACE|g" $way.out; umount --lazy $way/a $way/b; done
        for way in r k; do
            diff o.out $way.out > difference || { echo "$policy, $way:"; cat difference; }
        done
    done
    [ $(grep -c ". 0$" o.out) -ge 10 ] && echo compared
'
