(echo through > $M/special/fifo) &
cat $M/special/fifo
wait
echo $?
stat -c %F $M/special/fifo
