cd $S
tar cf ../a.tar large
zip -q -1 ../a.zip large
cd /
for a in tar zip; do
    rm -rf /dev/shm/*
    $C run --no-private -v $S/../a.$a:$T -- $P scan $T/large
done
