cd $M
exec 5< lines.txt
read -r a <&5
echo $a
busybox sh -c 'read -r b <&5; echo $b; exec bash -c "read -r c <&5; echo \$c"'
read -r d <&5
echo $d
busybox env -i /bin/bash -c 'read -r e <&5; echo $e'
read -r f <&5
echo $f
