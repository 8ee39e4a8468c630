cp -r @lz4@/liblz4/lib @lz4@/liblz4/programs @lz4@/liblz4/Makefile.inc .
mkdir build
make -s -C lib lib CFLAGS=-O0
make -s -C programs lz4 CFLAGS=-O0
ls -l lib/*.so* | awk '{ print $1, $9, $10, $11 }'
seq 30000 > f
programs/lz4 -q -1 f f.lz4
programs/lz4 -qdc f.lz4 | cmp - f
programs/lz4 -q -t f.lz4
stat -c %s f.lz4
make -s -C lib CFLAGS=-O0 -q && echo up to date || echo not up to date
touch lib/lz4.c
make -C lib liblz4.a CFLAGS=-O0 -n | grep -c lz4
make -s -C lib install DESTDIR=$M/root PREFIX=/usr CFLAGS=-O0 > /dev/null
find root | sort
cat > use.c << 'END'
#include <lz4.h>
#include <stdio.h>
int main(void) {
    printf("%d\n", LZ4_compressBound(100));
    return 0;
}
END
cc -pipe -I root/usr/include -o use use.c -L root/usr/lib -llz4 -Wl,-rpath,$M/root/usr/lib
./use
cc -I root/usr/include -o use2 use.c root/usr/lib/liblz4.a
./use2
cc -g -save-temps -I lib -o use3 use.c lib/lz4.c
./use3
ls use3*
ar x root/usr/lib/liblz4.a
ls *.o
strip use2
./use2
objcopy --only-keep-debug use3 use3.debug
ranlib root/usr/lib/liblz4.a
ld -r -o all.o lz4.o lz4hc.o
nm all.o | grep -c ' T '
cc -c missing.c 2>&1 | head -n 1
make -s -C programs clean > /dev/null
make -s -C lib clean > /dev/null
rm -f use3*.* *.o f.lz4 *.debug use use2 use3 root/usr/lib/lib*
grep -rl $M root | xargs -r sed -i s:$M:PLACE:g
