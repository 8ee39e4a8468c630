cd /
ls -l /etc/passwd
cat /etc/hostname
echo x > $W/f
cat $W/f
find /usr/include/linux -name 'f*.h' | sort
mkdir -p $W/a/b
mv $W/a $W/c
ls $W
cp /etc/passwd $W
cmp /etc/passwd $W/passwd
rm -r $W/c
ln -s f $W/l
readlink $W/l
stat -c '%n %s %h %m' $W/f
chmod 600 $W/f
dd if=/dev/zero of=$W/z bs=4096 count=100 status=none
wc -c $W/z
truncate -s 10 $W/z
sort /etc/passwd | md5sum
tar cf $W/t.tar -C /usr/include/linux . && tar tf $W/t.tar | wc -l
python3 --version
python3 -c '
import os, sys

print(sys.argv, os.getcwd(), os.listdir("/sys") != [])
'
bash -c 'echo $BASH_VERSION; type cat; ulimit -n; umask'
test -e $M/nothing || echo nothing
seq 100000 | sort -R | sort -n | md5sum
id -u
yes | head -n 100000 | md5sum
git --version
cc --version | head -n 1
pwd
kill -0 $$
exit 42
