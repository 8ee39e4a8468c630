cd $M && (
    ulimit -v 120000
    head -c 3000000 /dev/zero > big
    stat -c %s big
    cp big copy
    cmp big copy && echo same
    mkdir d
    mv copy d
    ls -R
    rm -r d big
)
