# Reads and writes, at one time, of 320 KiB at 512 KiB a second, in the directory $1 of a mount. The
# last piece bindfs does not wait for.
if [ "$1" = prepare ]; then
    head -c 327680 /dev/zero > $2/f
    exit
fi
cd "$1"
took() {
    began=$(date +%s%N)
    "$@"
    ended=$(date +%s%N)
    [ $(((ended - began) / 1000000)) -ge 300 ] && echo slow || echo fast
}
took dd if=/dev/zero of=g bs=64k count=5 status=none > ../written.$way &
took sh -c 'cat f | wc -c'
wait
cat ../written.$way
stat -c %s g
