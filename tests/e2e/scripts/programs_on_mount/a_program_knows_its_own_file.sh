bin/own
ln -s bin/own link
./link a
$M/bin/own | head -n 3
PATH=bin own
(exec -a other bin/own b)
(
    cd bin
    ./own | head -n 2
)
cd /
$M/link c d | grep -v size
