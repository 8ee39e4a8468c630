cd $W
mkdir copy copy/scripts
cp @install@ copy/scripts
cp -r @cargo_manifest_dir@/man copy
cp -r @cargo_manifest_dir@/extensions copy
mkdir -p copy/crates/culvert-library copy/crates/culvert-fuse
cp -r @cargo_manifest_dir@/crates/culvert-fuse/include copy/crates/culvert-fuse
cp -r @cargo_manifest_dir@/crates/culvert-library/include copy/crates/culvert-library
export BUILT=@built@
chmod 777 .
[ $(id -u) != 0 ] || as='setpriv --reuid=65534 --regid=65534 --clear-groups'
$as bash -c 'umask 022; copy/scripts/install --prefix $PWD/own 2>&1 > /dev/null | grep -o "mount.culvert was left out"
           mkdir moons at; echo moon > moons/io; own/bin/culvert run -v moons:$PWD/at -- cat at/io
           copy/scripts/install --prefix $PWD/own --remove > /dev/null; echo $?; find own ! -type d'
export DESTDIR=$PWD/root
for p in a b; do copy/scripts/install --prefix /$p > /dev/null; done
for p in a b; do
    copy/scripts/install --prefix /$p --remove > /dev/null
    readlink root/sbin/mount.culvert
done
find root ! -type d
