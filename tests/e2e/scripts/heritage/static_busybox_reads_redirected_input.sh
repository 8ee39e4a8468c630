cd $M
(
    read -r line
    echo $line
    busybox cat
) < lines.txt | md5sum
busybox wc -c < data.bin
busybox md5sum < data.bin
busybox cat < hello.txt
busybox tail -n 1 < big.txt
{
    busybox head -c 7
    busybox head -c 7
    cat
} < lines.txt | head -n 3
busybox cat < empty
busybox md5sum < sparse.bin
busybox sh -c 'cat' < dir/a.txt
busybox cat - < hello.txt | cat
