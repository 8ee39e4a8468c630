cd $M
(
    read -r a
    echo $a
    cat > /dev/null
) < lines.txt
{
    read -r a
    (
        read -r b
        echo $a $b
    )
    read -r c
    echo $c
} < lines.txt
exec 5< lines.txt
read -r a <&5
head -c 6 <&5 > /dev/null
read -r b <&5
echo $a $b
(
    read -r c <&5
    echo $c
)
exec 6<&5
read -r d <&6
read -r e <&5
echo $d $e
sed -n 3q <&5
cat <&5 | md5sum
wc -c <&5
