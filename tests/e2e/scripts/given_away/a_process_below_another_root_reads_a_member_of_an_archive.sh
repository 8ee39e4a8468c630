mkdir $W/root && cp @fixed@ $W/root/static && chroot $W/root /static hold 0 < $M/hello.txt
cat < $M/hello.txt
