echo 'int answer(void) { return 42; }' | cc -shared -fPIC -o lib/libanswer.so -xc -
printf '#include <stdio.h>\nint answer(void); int main(void) { printf("%d\\n", answer()); return 0; }' > use.c
cc -o bin/origin use.c -Llib -lanswer -Wl,-rpath,'$ORIGIN/../lib'
cc -o bin/rpath use.c -Llib -lanswer -Wl,-rpath,$M/lib
cc -o bin/none use.c -Llib -lanswer
ln -s bin/origin o
bin/origin
./o
(
    cd bin
    ./origin
)
bin/rpath
LD_LIBRARY_PATH=$M/lib bin/none
LD_LIBRARY_PATH=lib bin/none
(
    cd lib
    LD_LIBRARY_PATH=: ../bin/none
)
LD_PRELOAD=$M/lib/libanswer.so bin/none
bin/none
/lib64/ld-linux-x86-64.so.2 bin/origin
ldd bin/rpath | grep -c $M/lib/libanswer.so
