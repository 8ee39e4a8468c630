for p in 1 2 3 4; do (for i in $(seq 250); do echo "$p $i"; done >> log) & done
wait
wc -l < log
sort -u log | wc -l
awk 'NF != 2' log | wc -l
sort log > sorted
rm log
: > log
for p in a b c d; do for i in $(seq 25); do /bin/echo $p $i >> log; done & done
wait
sort log | md5sum
wc -l < log
rm log
