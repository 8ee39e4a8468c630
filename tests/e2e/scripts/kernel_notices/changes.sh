@seen@ S=@source@
cd @target@
no() { [ -e $1 ] && echo there || echo none; }
mkdir -p $S/d/e
echo one > $S/d/f
seen one cat d/f
seen none no d/new
seen f$'\n'e ls -r d
echo longer > $S/d/f
seen longer cat d/f
seen 7 stat -c %s d/f
printf LONGER > $S/d/f
seen LONGER cat d/f
chmod 600 $S/d/f
seen 600 stat -c %a d/f
ln $S/d/f $S/other
seen 2 stat -c %h d/f
rm $S/other
seen 1 stat -c %h d/f
touch -d @5 $S/d/f
seen 5 stat -c %Y d/f
setfattr -n user.a -v b $S/d/f
getfattr --only-values -n user.a d/f
echo
echo new > $S/d/new
seen there no d/new
seen new cat d/new
seen new$'\n'f$'\n'e ls -r d
rm $S/d/new
seen none no d/new
seen f$'\n'e ls -r d
echo another > $S/d/g
mv $S/d/g $S/d/f
seen another cat d/f
mv $S/d/f $S/d/e/f
seen none no d/f
seen another cat d/e/f
echo moved > $S/d/e/f
seen moved cat d/e/f
mv $S/d $S/d2
seen none no d
seen moved cat d2/e/f
echo again > $S/d2/e/f
seen again cat d2/e/f
mkdir $S/d
echo second > $S/d/f
seen second cat d/f
rm -r $S/d
seen none no d
ln -s one l
seen one readlink l
ln -sfn two $S/l
seen two readlink l
exec 3< d2/e/f
rm $S/d2/e/f
seen 0 stat -Lc %h /proc/self/fd/3
seen again cat /proc/self/fd/3
for i in 1 2 3 4 5 6 7 8; do
    echo $i > $S/n
    mv $S/n $S/m
    seen $i cat m
    echo $i$i > $S/m
    seen $i$i cat m
done
