cd @place@
umask 022
touch f
mkdir d
lsattr -d f d
as() {
    setpriv --reuid=65534 --regid=65534 --clear-groups -- bash -c "$1" 2>&1
    echo "= $?"
}
chattr +Ad f
chattr +A d
lsattr -d f d
chattr +i f
lsattr f
echo x 2> /dev/null > f
echo $?
rm -f f 2> /dev/null
echo $?
mv f g 2> /dev/null
echo $?
chattr -i f
rm f
echo $?
touch root
mkdir -m 777 open
as "chattr +A root" | tail -n 1
as "touch open/mine; chattr +d open/mine; lsattr open/mine; chattr +i open/mine 2>/dev/null"
chattr +a root
echo one >> root
echo two 2> /dev/null > root
cat root
chattr -a root
chattr -p 7 root && lsattr -p root
python3 -c "
import array, fcntl, termios

size = array.array('i', [-1])
file = open('root')
file.read(2)
file.seek(2)
fcntl.ioctl(file, termios.FIONREAD, size)
print(size[0])
for request in (0x40049409, 0xC020660B, 0x5401):
    try:
        fcntl.ioctl(file, request, bytearray(64))
        print('done')
    except OSError:
        print('refused')
"
