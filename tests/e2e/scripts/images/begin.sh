# /dev/shm is this test's alone, and all images with it.
mount -t tmpfs -o mode=1777,size=100m none /dev/shm || exit
mkdir -p $W/a $W/b
echo file > $W/a/f
build() { cc -shared -fPIC -O1 -DVERSION=$1 -o $2 $3 $LIBRARY; }
holes() { build 2000 $1 -Wl,--section-start=.init_array=0x20000; }
run() { $CULVERT run -v $W/a:$W/b -- "$@"; }
image() { find /dev/shm -name libp.so -path '*/images/*'; }
# A file is believed to be settled two seconds after its change.
settle() { sleep 2.3; }
# A program that goes on, and what it says when it is told to.
start() {
    rm -f $W/in $W/out
    mkfifo $W/in
    "$@" < $W/in > $W/out &
    stays=$!
    exec 3> $W/in
    lines=0
    tell
}
tell() {
    lines=$((lines + 3))
    echo go >&3
    until [ $(wc -l < $W/out) -ge $lines ]; do sleep 0.01; done
    tail -n 3 $W/out
}
stop() {
    exec 3>&-
    wait $stays || echo status $?
}
