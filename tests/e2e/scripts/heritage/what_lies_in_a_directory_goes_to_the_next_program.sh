mkdir -p $M/sub/deep
cd $M
echo hi > sub/b
cat < sub/b
cat 3< sub/b <&3
cd sub && ls && cat b && /bin/pwd
cd deep
(
    cd ..
    cat b
    cd /
    cat < $M/sub/b
)
ls ..
cp /bin/echo e
./e here
exec 5< ../b
cat <&5
ls ..
