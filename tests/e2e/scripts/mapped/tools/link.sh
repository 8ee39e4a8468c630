for i in $(seq 8); do {
    for j in $(seq 400); do echo "int f_${i}_$j(int x) { static int seen[$j]; return seen[0]++ * $i + x + $j; }"; done
    echo "int g_$i(int x) { int s = 0;"
    for j in $(seq 400); do echo "s += f_${i}_$j(x);"; done
    echo "return s; }"
} > p$i.c; done
{
    echo '#include <stdio.h>'
    for i in $(seq 8); do echo "int g_$i(int);"; done
    echo 'int main(void) { printf("%d\n", 0'
    for i in $(seq 8); do echo "+ g_$i($i)"; done
    echo '); return 0; }'
} > main.c
cc -g -fPIC -c *.c
ar rc libp.a p*.o
for l in bfd gold lld; do
    ! command -v ld.${l#ld.} > /dev/null || {
        cc -fuse-ld=$l -Wl,--build-id=sha1 -o program-$l main.o libp.a
        ./program-$l
        cc -fuse-ld=$l -shared -o $l.so p*.o
    }
done
cp --reflink=auto program-bfd copy
cmp copy program-bfd
strip copy
./copy
objcopy --only-keep-debug program-bfd debug
ld -r -o all.o p*.o
for l in bfd gold lld; do ! test -e program-$l || {
    cc -fuse-ld=$l -Wl,--build-id=sha1 -o program-$l main.o libp.a
    ./program-$l
}; done
file program-*
readelf -SW program-*
nm copy 2>&1 | head -n 1
