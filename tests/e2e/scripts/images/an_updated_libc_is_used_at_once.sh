# A libc and an ld.so that only $W/p uses.
mkdir $W/lib
loader=$(readelf -l $IMAGES | sed -n 's/.*interpreter: \(.*\)]/\1/p')
libc=$(ldd $IMAGES | sed -n 's/.*libc.so.6 => \(.*\) (.*/\1/p')
cp -L $loader $W/lib/ld-linux.so.2
cp -L $libc $W/lib/libc.so.6
cc -O1 -o $W/p $SOURCE -Wl,--dynamic-linker=$W/lib/ld-linux.so.2,-rpath,$W/lib
# The libc whose toascii(127) is $1, in its code; its build-id is that of all of them.
libc() {
    python3 - $libc $W/new $1 << END
import subprocess, sys
file, new, value = sys.argv[1:]
text = subprocess.run(["readelf", "-Ws", "--dyn-syms", file], capture_output=True, text=True).stdout
place = next(int(line.split()[1], 16) for line in text.splitlines() if " toascii@" in line)
code = bytearray(open(file, "rb").read())
at = code.index(b"\x83\xe0\x7f", place, place + 16)
code[at + 2] = int(value)
open(new, "wb").write(code)
END
}
settle
own() { run $W/p "$@" $W/b/f; }
own libc
own clean
echo -- by a rename, while one goes on
start run $W/p stay $W/b/f > $W/first
cat $W/first
libc 63
mv $W/new $W/lib/libc.so.6
own libc
tell
settle
own libc
own clean
tell
stop
echo -- in place, while one goes on
start run $W/p stay $W/b/f > $W/first
libc 31
dd if=$W/new of=$W/lib/libc.so.6 conv=notrunc bs=64k 2> $W/dd || cat $W/dd
own libc
tell > $W/told
tail -n 1 $W/told
settle
own libc
own clean
tell > $W/told
tail -n 1 $W/told
stop
echo -- in place, cut first
libc 15
cat $W/new > $W/lib/libc.so.6
own libc
settle
own libc
own clean
echo -- again and again, while others start
libc 95
cp $W/new $W/95
libc 15
cp $W/new $W/15
run sh -c "while [ ! -e $W/end ]; do $W/p libc $W/b/f || echo status \$?; done" > $W/all &
for i in 1 2 3 4 5 6 7 8; do
    for value in 95 15; do
        cp $W/$value $W/new
        mv $W/new $W/lib/libc.so.6
        test "$(own libc)" = "$value file" || echo stale
    done
    [ $i != 4 ] || settle
done
touch $W/end
wait
sort -u $W/all
