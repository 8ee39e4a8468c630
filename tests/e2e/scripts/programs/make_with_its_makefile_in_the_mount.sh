make -C $M OUT=$W && $W/hello
cd $M
make -n OUT=$W
make -q OUT=$W
echo $?
make OUT=$W
