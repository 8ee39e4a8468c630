for t in 002 005 01 02 03 04 05 08; do timeout -s KILL 0.$t $B/bin/culvert run -v $W/x.tar.gz:$M -- true > /dev/null 2>&1; done
c cat $M/hello.txt
find cache -type f | wc -l
