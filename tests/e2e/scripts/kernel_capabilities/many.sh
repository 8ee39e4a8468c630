for i in $(seq 30); do {
    touch a$i
    stat -c %s a$i b$i
    ls
} > /dev/null 2>&1 & done
wait
ls | wc -l
