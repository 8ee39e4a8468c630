build 1000 $W/libp.so
for i in $(seq 520); do
    echo $W/many/$i.so
done > $W/list
mkdir $W/many
xargs -n 1 cp $W/libp.so < $W/list
settle
images() { find /dev/shm -name '*.so' -path "*/images/*/$1.so" | wc -l; }
: within one run, that does not begin anew
run sh -c 'for part in 1 2; do xargs $IMAGES each $W/b/f < $W/list; done'
test $(images '*') -lt 500 && test $(images '*') -gt 450 || echo "$(images '*') images"
test $(images 520) = 0 || echo the last one has an image
: the next run begins with an empty store
run $IMAGES probe $W/many/520.so $W/b/f
test $(images 520) = 1 || echo there is no image
test $(images '*') = 1 || echo "$(images '*') images"
