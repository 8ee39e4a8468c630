cp /lib64/ld-linux-x86-64.so.2 lib/
cp /lib/x86_64-linux-gnu/libc.so.6 lib
printf 'int main(void) { return 7; }' \
    | cc -o bin/own7 -xc - -Wl,--dynamic-linker=$M/lib/ld-linux-x86-64.so.2 -Wl,-rpath,$M/lib
bin/own7
echo $?
(
    cd bin
    env -i ./own7
    echo $?
)
cp bin/own7 $W
$W/own7
echo $?
printf '#!'$W'/own7\n' > s
chmod +x s
./s
echo $?
lib/ld-linux-x86-64.so.2 bin/again | head -n 1
printf '#include <stdio.h>\nint main(void) { char t[4096] = ""; return readlink("/proc/self/exe", t, 4095) < 0 || puts(t) < 0; }' \
    | cc -w -include unistd.h -o bin/exe -xc - -Wl,--dynamic-linker=$M/lib/ld-linux-x86-64.so.2
bin/exe
cp bin/exe e
./e
cp e $W
$W/e
rm lib/ld*
bin/own7 2> /dev/null
echo $?
