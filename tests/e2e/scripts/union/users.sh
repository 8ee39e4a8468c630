set -e
cd @place@
export culvert=@culvert@
chmod 755 . ..
cat > operations.sh <<'X'
did() {
    user=$1; shift
    echo "$user: $*"
    setpriv --reuid=$user --regid=$user --clear-groups sh -c "cd $mount; umask 22; $*" 2>&1 | sed 's/^[^ ]*: //'
}
mount=$1
did 65534 'echo hi > public/mine; cat public/mine'
did 1234 'echo no > public/mine'
did 1234 'rm -f public/mine public/roots'
did 1234 'mv public/mine public/his'
did 65534 'cat secret/f; ls secret; echo x > secret/g'
did 65534 'echo x > shut/new; rm -f shut/f; mv shut/f shut/g; echo more >> shut/f'
did 65534 'echo x > root; echo x >> all'
did 65534 'echo x > own/new; mkdir own/d; ln -s x own/l; echo y > own/d/f; mv own/d/f own/d/g; ls own own/d'
did 1234 'echo x > own/other'
did 65534 'echo x > deep/own/new; ls deep/own; echo x > deep/no; ls public shut'
did 1234 'chmod 777 own/new'
did 65534 'chmod 700 own/new'
did 1234 'cat own/new; ls -l own/new | cut -c1-10'
X
chmod 755 operations.sh
# The first branch shows what directories are; others may be more open, or less.
way() {
    mkdir -p $1/a $1/b $1/c $1/m
    chmod 755 $1 $1/*
    mkdir -m 1777 $1/a/public $1/b/public
    mkdir -m 755 $1/b/own $1/b/secret $1/a/shut $1/c/deep $1/c/deep/own
    mkdir -m 777 $1/b/shut
    mkdir -m 700 $1/a/secret
    echo s > $1/b/secret/f
    echo x > $1/b/shut/f
    echo r > $1/a/root
    echo w > $1/c/all
    echo 1 > $1/b/public/roots
    chmod 666 $1/b/shut/f $1/c/all
    chown 65534:65534 $1/b/own $1/c/deep/own
}
after() { (cd $1; find a b c | sort | xargs stat -c '%n %u %a'); }
options=category.create=ff,minfreespace=0
branches() { echo $PWD/$1/a:$PWD/$1/b:$PWD/$1/c; }
umask 22
for way in original mount run; do way $way; done
mergerfs -o allow_other,$options,use_ino,cache.attr=0,cache.entry=0 $(branches original) original/m
(bash operations.sh $PWD/original/m; umount original/m; after original) > original.out
$culvert mount -t union -o allow_other,$options $(branches mount) mount/m
(bash operations.sh $PWD/mount/m; $culvert umount mount/m; after mount) > mount.out
($culvert run -v $(branches run):$PWD/run/m:type=union,$options -- bash operations.sh $PWD/run/m; after run) > run.out
# In a run nobody may make a directory of root's for others: they use the branch that has it.
sed '/^a 0/,$d' original.out > original.short
sed '/^a 0/,$d' run.out > run.short
mv run.short run.out
for way in mount run; do
    [ $way = mount ] || mv original.short original.out
    diff original.out $way.out > difference || { echo "$way:"; head -40 difference; }
done
echo compared
