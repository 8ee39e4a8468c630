# /dev/shm and /run are this test's alone, and all copies with them.
mount -t tmpfs -o mode=1777,size=100m none /dev/shm || exit
mount -t tmpfs -o mode=0755,size=100m none /run || exit
mkdir -m 700 /run/mine
export XDG_RUNTIME_DIR=/run/mine
mkdir -p $W/a $W/b
echo file > $W/a/f
run() { $CULVERT run --no-private -v $W/a:$W/b -- "$@"; }
copy() { find /run -name libculvert.so -path '*/culvert-libraries/*'; }
# Where the program headers say it lies.
address() { readelf -lW $(copy) | awk '$1 == "LOAD" { sub("0x0*", "", $3); print $3; exit }'; }
# A run that goes on, and its environment, as others see it, in $W/environment.
begin_run() {
    run sh -c "tr '\0' '\n' < /proc/\$\$/environ > $W/environment.new
        mv $W/environment.new $W/environment
        while test -e $W/environment; do sleep 0.02; done" &
    until test -e $W/environment; do sleep 0.02; done
}
variable() { sed -n "s/^$1=//p" $W/environment; }
end_run() {
    rm $W/environment
    wait
}
