set -e
cd $W
I=$W/static_tls.c
printf %s "$SOURCE" > $I
unset SOURCE
cc -shared -fPIC -DLIBRARY=24000 -o liblarge.so $I
cc -o large $I -L. -llarge -Wl,-rpath,$W
cc -shared -fPIC -DLIBRARY=1400 -o libsmall.so $I
cc -o small $I -L. -lsmall -Wl,-rpath,$W
echo '__thread char other[24000];' | cc -shared -fPIC -o libother.so -xc -
printf '#include <stdio.h>\nextern __thread char other[24000]; int main(void) { other[9] = 7; printf("%%d\\n", other[9]); return 0; }' \
    | cc -o foreign -xc - -L. -lother -Wl,-rpath,$W
printf '#include <dlfcn.h>\n#include <stdio.h>\nint main(int n, char **v) { puts(dlopen(v[1], RTLD_NOW) ? "opened" : dlerror()); return n - 2; }' \
    | cc -o load -xc -
set +e
