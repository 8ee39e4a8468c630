cd $M && {
    (
        ulimit -f 8
        head -c 20000 /dev/zero > big
        echo $?
        trap "" XFSZ
        head -c 20000 /dev/zero > big2
        echo $?
        echo x >> big2
        truncate -s 10000 big3
        echo $?
    )
    stat -c %s big big2
} 2>&1 | sed 's/line [0-9]*: *[0-9]*/line/'
