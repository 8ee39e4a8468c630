cd $M
(
    echo one
    echo two
) > f
cat f
{
    echo a
    echo b >&2
} > f 2>&1
cat f
{
    echo 1
    bash -c 'echo 2'
    /bin/echo 3
    echo 4
} > f
cat f
exec 5>> f
echo five >&5
(echo six >&5)
bash -c 'echo seven >&5'
exec 5>&-
cat f
(
    echo x
    cat < f
    echo y
) > g
cat g
wc -l < g
tail -n 2 g
exec 6<> f
read -u 6 line
echo $line
echo REPLACED >&6
exec 6>&-
cat f
sort < f > h
cat h
tac < f | tee -a h > i
cat h i
rm f
ls
