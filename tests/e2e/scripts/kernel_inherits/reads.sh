cd $1
for f in f g; do echo content > $f; done
mkdir -p d
touch d/x
touch -a -d @1000 f d
touch -m -d @900 f g d
touch -a -d "1 hour ago" g
before=$(stat -c %X f g d)
cat f g > /dev/null
ls d > /dev/null
sync
stat -c %X f g d | paste - <(echo "$before") | while read now then; do
    [ $now = $then ]
    echo -n "$? "
done
echo
