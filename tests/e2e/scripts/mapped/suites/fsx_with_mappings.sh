cd $W
printf %s '@fsx@' > conf
sed 's/ASYNC/false/' conf > sync
sed 's/ASYNC/true/; s/262144/90000/; s/65536/20000/' conf > async
run() {
    mkdir $1.d
    left=@operations@ seed=$2
    while [ $left -gt 0 ]; do
        n=$left
        [ $n -le 10000 ] || n=10000
        left=$((left - n)) seed=$((seed + 100))
        @fsx_2@ -f $1 -N $n -S $seed -P $1.d $M/file.$1 > $1.said 2>&1 \
            && tail -n 1 $1.said | grep -q A-OK || {
            tail -n 40 $1.said
            return 1
        }
    done
    echo A-OK
}
run sync 11 &
a=$!
run async 12 &
b=$!
wait $a
wait $b
