cd $M
cp /lib64/ld-linux-x86-64.so.2 ld.so
echo 'int main(void) { return 0; }' | cc -o p -xc - -Wl,--dynamic-linker=$M/ld.so
./p
echo $?
chmod 644 p
./p 2> /dev/null
echo $?
