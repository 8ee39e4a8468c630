# /dev/shm is this test's alone, and all images with it.
mount -t tmpfs -o mode=1777,size=100m none /dev/shm || exit
mkdir -p $W/a $W/b
echo file > $W/a/f
build() { cc -shared -fPIC -O1 -DVERSION=$1 -o $2 $LIBRARY; }
run() { $CULVERT run -v $W/a:$W/b -- "$@"; }
image() { find /dev/shm -name libp.so -path '*/images/*'; }
# A file is believed to be settled two seconds after its change.
settle() { sleep 2.3; }
