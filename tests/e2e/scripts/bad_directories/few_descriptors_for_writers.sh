cd $M && mkdir d && (
    ulimit -n 16
    for i in 1 2 3 4 5 6 7 8; do echo $i > d/$i; done
    cat d/*
    cp -r d e
    ls e
    rm -r d e
    exec 9> f 10< f
    echo x >&9
    cat <&10
)
(
    ulimit -n 16
    @many@
    echo five >&5
    echo nine >&9
    cat a e
)
ls
