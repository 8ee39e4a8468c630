cc -O1 -fsanitize=address -o $W/checked $SOURCE || exit
build 1000 $W/libp.so
settle
run true
run $W/checked clean
run $W/checked probe $W/libp.so $W/b/f
