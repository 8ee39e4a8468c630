cd $M
for i in 1 2 3 4; do head -c 1 hello.txt 2> /dev/null || printf x; done
echo
