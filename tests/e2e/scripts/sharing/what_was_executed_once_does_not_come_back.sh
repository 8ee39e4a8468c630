S=@program@
cd $M
cp /bin/echo e
cp /bin/echo g
for i in 1 2 3 4 5; do
    ./e $i
    ./g $i
done
cat /bin/true > e
cat /bin/true > g
$S say x >> o &
$S copy <> e | cmp - /bin/true && cmp e /bin/true && cmp g /bin/true && echo the new bytes
wait
cat o
