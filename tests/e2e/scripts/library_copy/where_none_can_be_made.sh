(ulimit -f 100; run cat $W/b/f)
copy | wc -l
run cat $W/b/f
copy | wc -l
