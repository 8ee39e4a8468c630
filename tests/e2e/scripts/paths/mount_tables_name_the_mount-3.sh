cd $M
test $(stat -c %d .) = $(stat -c %d dir/a.txt) && echo one device
find . -xdev -name a.txt
find $B/mnt -maxdepth 1 -mount -name dir
