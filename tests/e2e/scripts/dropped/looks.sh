id -u
cat $M/f $M/own
md5sum < $M/sub/big
ls $M
cd $M/sub && wc -l big
cd ..
cat f
echo > new
