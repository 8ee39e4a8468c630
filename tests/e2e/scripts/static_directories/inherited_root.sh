cd $M
printf 'n=$1; exec 6<&5 6<&-; if [ $n -gt 0 ]; then exec bash again $((n - 1)) $2; fi; busybox ls /proc/$$/fd > $2' > again
exec 5< $M
bash again 3 $W/few
bash again 12 $W/more
few=$(wc -l < $W/few)
more=$(wc -l < $W/more)
[ $few = $more ] && echo same || echo $few $more
