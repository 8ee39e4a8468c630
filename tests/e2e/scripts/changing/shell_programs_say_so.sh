cd $M
touch new
touch hello.txt
mkdir d
rm hello.txt
rm -rf dir
rmdir dir/empty-dir
mv hello.txt other
cp hello.txt copy
ln -s a b
ln hello.txt hard2
chmod 600 hello.txt
echo x >> hello.txt
echo x > new
truncate -s 0 hello.txt
mkfifo p
dd if=/dev/zero of=new count=1 status=none
tee hello.txt < /dev/null
sed -i s/a/b/ hello.txt 2>&1 | cut -c 1-39
mv hello.txt $W/moved
ls $W
cp -a dir $W/copy && find $W | sort
