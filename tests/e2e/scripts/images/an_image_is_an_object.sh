build 1000 $W/libp.so
settle
run $IMAGES probe $W/libp.so $W/b/f
i=$(image)
id() { readelf -n $1 2> /dev/null | sed -n 's/.*Build ID: //p'; }
test "$(id $i)" = "$(id $W/libp.so)" || echo another build-id
case $i in */$(id $i)-*/libp.so) ;; *) echo $i ;; esac
readelf -sW $i > $W/one; readelf -sW $W/libp.so > $W/other; cmp $W/one $W/other
stat -c %a $i $(dirname $i)
