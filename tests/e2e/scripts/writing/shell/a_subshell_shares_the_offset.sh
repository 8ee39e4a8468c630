(
    echo a
    echo b
) > f
cat f
(
    echo 1
    (
        echo 2
        echo 3
    )
    echo 4
) > g
cat g
{
    echo x
    sh -c 'echo y; exec echo z'
    echo w
} > h
cat h
(
    seq 5
    /bin/echo six
    seq 7 9
) > i
cat i
for n in 1 2 3; do echo $n; done > j
cat j
while read -r l; do echo "<$l>"; done < j > k
cat k
exec 7> l
echo first >&7
(echo second >&7)
sh -c 'echo third >&7'
/bin/echo fourth >&7
exec 7>&-
cat l
(
    echo long long line
    cat f
) > m
cat m
{
    head -c 3
    cat
} < m > n
cat n
(
    exec > o
    echo in o
    /bin/echo too
)
cat o
