cd /
umask 022
chmod 755 $M
mkdir $M/sub
echo text > $M/f
seq 1 100000 > $M/sub/big
echo own > $M/own
chmod 600 $M/own
