echo one > f
echo two >> f
cat f
{
    echo a
    echo b >&2
} > both 2>&1
cat both
echo x &> all
echo y &>> all
cat all
exec 5> five
echo to five >&5
echo again >&5
exec 5>&-
cat five
exec 6<> both
read -r line <&6
echo $line
echo Z >&6
exec 6>&-
cat both
set -C
if echo no > f 2> /dev/null; then echo OVERWRITTEN; fi
echo yes >| f
cat f
set +C
: > f
test ! -s f
echo 1 > n
echo 22 1<> n
cat n
cat < f > g
cat n >> g
cat g g > h
wc -c < h
if cat h >> h; then echo APPENDED TO ITSELF; fi 2> /dev/null
