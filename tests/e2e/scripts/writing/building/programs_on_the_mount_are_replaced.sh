cp /bin/echo e
./e one
cp /bin/true t
./t && echo true
mv t e
./e not printed
cp /bin/echo new
mv new e
./e two
cp /bin/true o
./o
cp /bin/echo o
./o written in place
cp /bin/true o
./o not printed
cp /bin/cat c
./c e | ./c | ./c | cmp - e && echo several at once
printf '#!/bin/sh\necho script $0 $1\n' > s
chmod +x s
./s x
$M/s y
(
    cd /
    $M/s z
)
printf '#!%s\nabc\n' $M/e > i
chmod +x i
./i w
chmod -x s
./s 2> /dev/null
echo $?
PATH=$M:$PATH
chmod +x s
s v
