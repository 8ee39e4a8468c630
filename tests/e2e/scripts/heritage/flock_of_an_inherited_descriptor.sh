cd $M
(
    flock 9
    echo locked
    flock -n $M/hello.txt true && echo NOT EXCLUSIVE || echo held
) 9< hello.txt
flock -n hello.txt echo free again
exec 8< hello.txt
flock -s 8
(flock -s -n 9 && echo shared) 9< hello.txt
(flock -x -n 9 || echo not exclusive) 9< hello.txt
flock -u 8
(flock -x -n 9 && echo exclusive) 9< hello.txt
flock $M/dir -c 'echo a directory'
(
    flock 9
    exec 9<&-
    flock -n $M/empty echo released
) 9< empty
