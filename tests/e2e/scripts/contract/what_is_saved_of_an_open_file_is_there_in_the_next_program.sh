cd $M
echo one > a
echo two > b
exec 8< a 9< b
exec bash -c 'read line <&8; echo $line; exec bash -c "read line <&9; echo \$line"'
