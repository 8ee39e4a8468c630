cp bin/own p
chmod 644 p
busybox wc -l < p > /dev/null
./p
chmod 755 p
./p | grep -v size
chmod 644 p
./p
echo $?
