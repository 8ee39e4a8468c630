rm -rf s m in t
mkdir -p s/d m in/a t
echo packed > in/a/f
ln -s ../../t s/d/over
ln -s $PWD/t/a/f s/file
tar -C in -cf in.tar a
exec $B/bin/culvert run @privacy@ -v s:m -v in.tar:t -- bash -c '
    cd m; cat d/over/a/f file; stat -L -c "%F %s" d/over/a/f file d/over/a; ls d/over
    test -r d/over/a/f && test -r file && echo readable; test -e d/over/none || echo none
    touch d/over/new 2>/dev/null || echo no new; mkdir d/over/new 2>/dev/null || echo no new
    cd d/over/a; cat f; ls ../../t'
