echo 1 > log
: > seen
timeout 55 tail -n +1 -F log > seen 2> /dev/null &
t=$!
w() { until grep -q "$1" seen; do sleep 0.02; done; }
w 1
echo 2 >> log
w 2
mv log log.1
echo 3 > log
w 3
echo four >> log
w four
kill $t
wait $t 2> /dev/null
cat seen
rm seen
ls
