# A block device that is shown as a file, in the directory $1 of a mount.
if [ "$1" = prepare ]; then
    head -c 102400 /dev/zero | tr '\0' d > disk
    [ -e device ] || losetup -f --show $PWD/disk > device
    mknod $2/b b $(stat -c '0x%t 0x%T' $(cat device))
    head -c 102400 /dev/zero | tr '\0' d > $2/b
    echo plain > $2/f
    exit
fi
cd "$1"
stat -c '%F %s %a %t' b f
test -f b && echo file
head -c 4 b; echo
tail -c 4 b; echo
printf new | dd of=b bs=1 seek=10 conv=notrunc,fsync status=none
head -c 16 b; echo
head -c 16 ../s/b; echo
cp b ../copy
stat -c %s ../copy
md5sum < ../copy
chmod 600 b
stat -c '%F %a' b ../s/b
