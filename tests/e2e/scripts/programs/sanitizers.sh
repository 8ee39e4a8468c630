cd $M
for s in thread address undefined leak; do
    cc -Iinc -fsanitize=$s -o $W/$s hello.c || exit
    for i in $(seq 12); do
        $W/$s > $W/said 2>&1
        echo $s $?
        cat $W/said
    done
done
