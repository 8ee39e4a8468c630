mkdir a b
seq 10 > a/f
mv a/f a/g
mv a/g b
ls a b
mv b/g b/h
mv b c
cat c/h | wc -l
mv -n c/h a
touch x y
echo x > x
echo y > y
mv x y
cat y
mv -b y a
mkdir -p deep/er
mv deep a
ls a
mv a/deep/er .
mv -T er a/deep/er
if mv a a/deep 2> err; then echo MOVED; fi
cat err
touch full
mkdir full.d
touch full.d/f
if mv -T full full.d 2> err; then echo MOVED; fi
cat err
if mv -T full.d a 2> err; then echo MOVED; fi
cat err
echo out > $W/outside
mv $W/outside in
cat in
mv in $W/outside
cat $W/outside
mkdir -p $W/tree/sub
echo t > $W/tree/sub/t
ln -s t $W/tree/sub/l
mv $W/tree .
find tree | sort
mv tree $W/back
find $W/back -printf '%P %y\n' | sort
ln full hard
if mv hard full 2> err; then ls full hard; fi
mv full 'a name with spaces'
ls
rm -f hard
