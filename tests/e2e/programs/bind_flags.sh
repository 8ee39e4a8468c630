# Inode flags of files of root's and of another user's, by both, in the directory $1 of a mount.
if [ "$1" = prepare ]; then
    echo one > $2/f
    echo two > $2/theirs
    chown 1:1 $2/theirs
    exit
fi
cd "$1"
as() {
    setpriv --reuid=$1 --regid=$1 --clear-groups $2 $3 theirs
    lsattr theirs
}
chattr +a f
lsattr f
sh -c "echo no > f"
rm -f f
echo more >> f
cat f
chattr -a f
chattr +d f
lsattr f
as 1 chattr +d
as 65534 chattr -d
as 1 chattr +i
# EXT4_IOC_GETSTATE: bindfs hands all on, which is not compared.
python3 -c 'import fcntl; fcntl.ioctl(open("f"), 0x40046629, bytes(4))' 2>&1 | tail -1 > ../others.$way
