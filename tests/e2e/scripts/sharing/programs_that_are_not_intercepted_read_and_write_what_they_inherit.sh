S=@program@
cd $M
$S say one > f
cat f
$S say two >> f
cat f
stat -c %s f
(
    echo a
    $S say b
    echo c
    $S say d
) > g
cat g
{
    $S say long-long-line
    wc -c < h
    echo y
} > h
cat h
$S copy < f > k
cat k
(
    read line
    echo $line
    $S copy
) < g
exec 7<> m
echo start >&7
$S say middle >&7
echo end >&7
cat m
$S say more >&7
exec 7>&-
cat m
$S say last > n &
wait
cat n
$S say x > o
$S say y > o
cat o
truncate -s 1 o
cat o
$S say z >> o
cat o
