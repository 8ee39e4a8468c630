cd $W
v=$(/usr/bin/gcc -dumpversion)
export PATH=$M/usr/bin:$PATH LD_LIBRARY_PATH=$M/usr/lib/x86_64-linux-gnu
gcc() { gcc-$v --sysroot=$M "$@"; }
type -P gcc-$v ld
gcc -print-prog-name=cc1
gcc -print-prog-name=as
printf '#include <stdio.h>\n#include <math.h>\nint b(int); int main(int c, char **v) { printf("hello %%d %%.3f\\n", b(c), sqrt(c + 1)); return 0; }' > a.c
echo 'int b(int x) { return x * 7; }' > b.c
gcc -O2 -o h a.c b.c -lm && ./h && gcc -c a.c b.c && ar rcs l.a b.o && gcc -o h2 a.o l.a -lm \
    && ./h2 x
gcc -flto -O2 -o h3 a.c b.c -lm && ./h3 x y
gcc -shared -fPIC -o libb.so b.c
gcc -o h4 a.c -L. -lb -lm -Wl,-rpath,. && ./h4
gcc -static -o h5 a.c b.c -lm && ./h5
gcc -M a.c | tr ' ' '\n' | sort | head -n 5
objdump -d h | grep -c call
echo bad | gcc -xc - 2>&1 | head -n 2
gcc -o h6 a.c b.c -lm -Wl,--dynamic-linker=$M/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 && ./h6
