export XDG_CACHE_HOME=$W/cache
for i in 1 2; do
    tar czf x.tar.gz --transform 's,.*,name,' --mtime=@0 $O/outside.txt 2> /dev/null
    touch -d @1500000000 x.tar.gz
    $B/bin/culvert run -v x.tar.gz:$B/other -- cat $B/other/name
    find cache -type f | wc -l
done
echo changed > f
tar czf x.tar.gz f
$B/bin/culvert run -v x.tar.gz:$B/other -- sh -c 'ls $B/other; cat $B/other/f'
for f in $(find cache -type f); do echo garbage > $f; done
$B/bin/culvert run -v x.tar.gz:$B/other -- cat $B/other/f
for f in $(find cache -type f); do truncate -s 100 $f; done
$B/bin/culvert run -v x.tar.gz:$B/other -- cat $B/other/f
for f in $(find cache -type f); do : > $f; done
$B/bin/culvert run -v x.tar.gz:$B/other -- cat $B/other/f
