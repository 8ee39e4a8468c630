set -e
cd @place@
export culvert=@culvert@
chmod 755 . ..
mkdir -p a b m
chmod 777 a b m
echo text > a/f
chmod 640 a/f
# What user B is shown is not what user A was, however short a time ago.
cat > look.sh <<'X'
for round in 1 2; do
    for user in 1 65534 1234 0; do
        echo "$user: $(setpriv --reuid=$user --regid=$user --clear-groups sh -c "stat -c '%u %a' $1/f; cat $1/f; ls -ln $1 | tail -1 | cut -c1-40" 2>&1 | sed 's/^[^ ]*: //' | tr '\n' ' ')"
    done
done
X
chmod 755 look.sh
bindfs -o mirror=1:65534 a m
sh look.sh $PWD/m > original.out
umount m
$culvert mount -t bind -o allow_other,mirror=1:65534 $PWD/a m
sh look.sh $PWD/m > mount.out
$culvert umount m
$culvert run --mount type=bind,source=$PWD/a,target=$PWD/m,mirror=1:65534 -- sh look.sh $PWD/m > run.out
# Below another view, and over a union.
$culvert mount -t union -o allow_other,layer=bind,bind.mirror=1:65534,layer=casefold,minfreespace=0 $PWD/a:$PWD/b m
sh look.sh $PWD/m > union.out
$culvert umount m
source=$PWD/a:$PWD/b
$culvert run --mount type=union,source=$source,target=$PWD/m,layer=bind,bind.mirror=1:65534 -- sh look.sh $PWD/m > urun.out
grep -q '^1: 1 640 text' mount.out && grep -q '^65534: 65534 640 text' mount.out && grep -q '^0: 0 640 text' mount.out || { cat mount.out; exit 1; }
for way in original union; do
    diff mount.out $way.out > difference || { echo "$way:"; cat difference; }
done
diff run.out urun.out > difference || { echo "run:"; cat difference; }
# In a run each sees the same owners, and may what he may anyway.
for way in mount run; do cut -d' ' -f1-3 $way.out > $way.short; done
diff mount.short run.short > difference || { echo "run:"; cat difference; }
echo compared
