mkdir -p d/e
cd d/e
rmdir $M/d/e
pwd
LIST
echo x > f
echo $?
cd ..
pwd
mkdir g
cd g
echo 1 > one
mv $M/d/g $M/moved
cat one
echo 2 > two
ls
cat $M/moved/two
/bin/pwd
cd ..
/bin/pwd
mkdir g
echo other > g/one
cat $M/moved/one g/one
