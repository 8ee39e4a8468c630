mkdir -p $M/d/e $W/away
echo away > $W/away/f
echo top > $M/f
cd $M
ln -s $W/away abs
ln -s $M/f back
ln -s ../f d/up
ln -s "$(realpath --relative-to=$M $W/away)" climbs
ln -s l1 l2
ln -s l2 l1
ln -s ../../../../../../../.. d/e/root
for p in abs/f back d/up climbs/f l1 d/e/root/ d/../f d/e/../../f d/up/x f/ climbs/../away/f; do
    cat $p 2>&1
    stat -c '%F %s' $p 2>&1
    test -r $p
    echo $?
done 2>&1
echo new > climbs/made
echo more >> abs/made
cat $W/away/made
mv climbs/made abs/moved
ln $W/away/f climbs/hard
ls $W/away
rm climbs/moved
cp -a d d2
find d2 -printf '%p %M %l %n\n' | sort
chmod 600 back climbs/f
stat -c %a f $W/away/f
touch -d @5 d/up
stat -c %Y f
truncate -s 2 d/up
cat f
rm -r climbs d/up
ls
