for i in 1 2 3 4 5 6 7 8; do c md5sum $M/big.txt $M/hello.txt < /dev/null > out.$i & done
wait
sort -u out.? | wc -l
find cache -type f | wc -l
