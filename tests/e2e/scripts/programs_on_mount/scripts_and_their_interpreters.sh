printf '#!%s/bin/own  -x\n' $M > s
cp /bin/echo bin/echo
printf '#!%s/bin/echo -n b \n' $M > bin/t
printf '#!bin/echo rel\n' > r
printf '#!%s/bin/t more\n' $M > n
printf '#!/bin/echo out\n' > o
printf '#!/bin/echo %0300d\n' 7 > long
chmod +x s bin/t r n o long
./long | wc -c
./s a
bin/t 1 2
echo
$M/bin/t
echo
(
    cd bin
    ./t 5
    PATH=. t 6
    (exec -a other ./t 7)
)
echo
./r z
(
    cd bin
    ../r z
    echo $?
)
./n q
env -i ./n w
./o
$M/o e
find . -name o -exec {} \;
