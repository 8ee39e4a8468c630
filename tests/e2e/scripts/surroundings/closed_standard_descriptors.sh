(
    exec 0<&- 1>&- 2>&-
    c sh -c 'cat $M/hello.txt > out 2> err; ls /proc/self/fd > fds'
    sh -c 'ls /proc/self/fd > native'
)
cat out err
cmp fds native
c sh -c 'exec 0<&-; cat $M/dir/a.txt; read x' 2> /dev/null
(
    exec 1>&-
    c cat $M/hello.txt
) 2> /dev/null || echo no output
