set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    mount -t tmpfs none target
    cd target
    cat > steps.sh <<X
exec 2>&1
m=\$1 a=\$2 how=\$3
exec 5< \$m/d/f 6>> \$m/d/open
ls \$m/d
case \$how in removed) rm -r \$a;; another) rm -r \$a; mkdir -p \$a/d; echo no > \$a/d/no;; esac
for turn in 1 2; do
    echo two > \$m/d/two\$turn; echo create \$?
    mkdir \$m/e\$turn; echo mkdir \$?
    ln -s x \$m/s\$turn; echo symlink \$?
done
cat \$m/d/g; cat <&5; sh -c "echo more >&6"; echo append \$?
chmod 600 \$m/d/g; echo chmod \$?
mv \$m/d/two1 \$m/three; echo mv \$?
rm \$m/d/g; echo rm \$?
rmdir \$m/e1; echo rmdir \$?
stat -f \$m > /dev/null; echo statfs \$?
X
    cat > want <<X
f
g
open
create 0
mkdir 0
symlink 0
create 0
mkdir 0
symlink 0
b
a
append 0
chmod 0
mv 0
rm 0
rmdir 0
statfs 0
X
    for policy in ff mfs epmfs all; do for how in removed another; do
        options=minfreespace=0,category.create=$policy
        for way in r k; do
            rm -rf $way
            mkdir -p $way/a $way/b/d $way/m
            mkdir $way/a/d
            echo a > $way/a/d/f
            echo b > $way/b/d/g
        done
        $culvert run -v $PWD/r/a:$PWD/r/b:$PWD/r/m:type=union,$options -- sh steps.sh $PWD/r/m $PWD/r/a $how > r.out
        $culvert mount -t union -o $options $PWD/k/a:$PWD/k/b $PWD/k/m
        sh steps.sh $PWD/k/m $PWD/k/a $how > k.out
        $culvert umount k/m
        for way in r k; do
            sed -i "/goes on without this branch/d" $way.out
            diff want $way.out > difference || { echo "$policy, $how, $way:"; cat difference; }
            # Nothing was made in what has taken its place.
            case $how in removed) [ ! -e $way/a ] ;; another) [ "$(find $way/a | wc -l)" = 3 ] ;; esac || { echo "$policy, $how, $way:"; ls -R $way/a; }
        done
    done; done
    echo went on
'
