echo old > f
busybox cat < f
rm f
for i in 1 2 3 4 5 6 7 8; do
    cp bin/own p$i
    ./p$i | head -n 1
    busybox cmp - bin/own < p$i
    echo $?
done
rm p?
cp bin/own e
./e | head -n 1
rm e
for i in 1 2 3 4 5 6 7 8; do
    printf '#!/bin/echo -n %d
' $i > s$i
    chmod 755 s$i
    ./s$i
    busybox cat < s$i
done
rm s?
{ for round in 1 2 3; do
    echo old > f
    (busybox sh -c 'echo stranger-bytes; kill -9 $$' > f)
    rm f
    for i in 1 2 3 4 5 6 7 8; do echo new > g$i; done
    cat g?
    cat g? | busybox md5sum
    rm g?
done; } 2> /dev/null
rm -f $W/go
mkfifo $W/go
exec 6<> $W/go
for round in 1 2 3; do
    echo old > f
    exec 7> f
    busybox sh -c 'read x; echo stranger >&7' <&6 &
    rm f
    exec 7>&-
    for i in 1 2 3 4 5 6 7 8; do echo new > g$i; done
    echo go >&6
    wait
    cat g?
    rm g?
done
for round in 1 2 3 4 5; do
    echo old > f
    exec 7> f
    rm -f $W/started
    busybox sh -c 'echo > '$W'/started; while :; do echo stranger; done >&7' &
    until test -s $W/started; do :; done
    rm f
    exec 7>&-
    kill -9 $!
    wait $! 2> /dev/null
    for i in 1 2 3 4 5 6 7 8; do echo new > g$i; done
    cat g?
    rm g?
done
