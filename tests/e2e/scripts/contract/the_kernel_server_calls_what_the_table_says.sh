echo kept > @target@/f
exec 9< @target@/f
kill -9 @last@
read line <&9
echo $line
touch @source@/g
until [ -e @target@/g ]; do :; done
