cp /bin/echo e
./e one
cp /bin/true e
./e not
cp /bin/echo e
./e two
printf 'echo script $1' > e
./e three
cp /bin/echo e
chmod -x e
./e 2> /dev/null
echo $?
chmod +x e
./e four
rm e
./e 2> /dev/null
echo $?
cp /bin/echo e
mv e f
./f five
cp /bin/true e
mv e f
./f not
cat /bin/echo > f
./f six
