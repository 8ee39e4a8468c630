cd $M
cc -Iinc -o $W/hello hello.c && $W/hello
test $? = 3 && cc -E -Iinc hello.c | tail -n 3
cc -M -Iinc hello.c
cc -c -g -O2 -I$M/inc -o $W/x.o $M/hello.c && echo object
cc -o $W/use use.c -Llib -lanswer -Wl,-rpath,$M/lib && $W/use
cc -fsyntax-only -Imissing hello.c 2>&1 | head -n 2
ar t $M/lib/libanswer.so 2>&1 | head -n 1
nm -D lib/libanswer.so | grep answer
objdump -d lib/libanswer.so | md5sum
readelf -h bin/hello | md5sum
