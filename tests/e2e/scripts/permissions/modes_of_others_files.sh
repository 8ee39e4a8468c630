cd $M/modes
for f in 600 644 755 000 444 111 4755 2755; do
    cat $f 2>&1
    test -r $f
    echo r $?
    test -x $f
    echo x $?
done
for d in d700 d555 d1777 d000; do
    ls $d 2>&1
    cat $d/file 2>&1
    (cd $d && pwd) 2>&1
done
cat ../hello.txt
true
