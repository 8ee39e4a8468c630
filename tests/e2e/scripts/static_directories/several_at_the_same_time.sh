cd $M
for i in {1..12}; do
    mkdir $i
    for j in {1..9}; do seq $i $((i * 150)) > $i/$j; done
done
for i in {1..12}; do (cd $i && exec busybox md5sum 1 2 3 4 5 6 7 8 9 > $W/sums$i) & done
wait
cat $W/sums{1..12}
