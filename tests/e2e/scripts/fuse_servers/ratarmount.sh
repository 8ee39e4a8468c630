tar cf image.tar -C tree .
export PATH=/usr/local/lib/culvert-tests/bin:$PATH
run 'type=fuse,"command=ratarmount -f image.tar %m"' 'diff -r tree $M; touch $M/new 2> said && exit 1; test ! -e $M/new'
