c md5sum $M/data.bin > before
c bash -c 'exec 3<$M/data.bin; head -c 10 $M/data.bin | wc -c; truncate -s 3000 x.@kind@; md5sum $M/data.bin > after; echo $?; cat $M/big.txt 2>/dev/null | tail -c 100 >/dev/null; md5sum <&3 >/dev/null; test $? -lt 128 && echo alive; ls $M >/dev/null; test $? -lt 128 && echo alive'
