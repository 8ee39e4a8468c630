mkdir -p $M/a/b $M/other
echo in-a > $M/a/f
cd $M/a
exec 5< .
bash -c "mv $M/a $M/moved; mkdir $M/a; echo new > $M/a/f"
cat f
cat $M/a/f
/bin/pwd
env env /bin/pwd
readlink /proc/self/cwd
cat /dev/fd/5/f
mkdir made
ls $M/moved $M/a
cd b
/bin/pwd
cd ../..
/bin/pwd
ls
