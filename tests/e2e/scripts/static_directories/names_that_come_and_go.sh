cd $M
mkdir d
echo text > d/stay
(until [ -e done ]; do
    mkdir d/x
    echo > d/x/file
    echo > d/y
    rm -r d/x d/y
done) &
for i in {1..20}; do (cd d && busybox cat stay); done
touch done
wait
