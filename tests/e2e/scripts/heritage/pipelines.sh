cd $M
cat lines.txt | grep 7 | sort -rn | head -n 5
cat < lines.txt | tail -n 2
(
    cat hello.txt
    cat
) < dir/a.txt | cat - dir/b.txt
diff <(cat lines.txt) <(cat < lines.txt) && echo equal
while read -r a && read -r b <&4; do echo $a $b; done < hello.txt 4< lines.txt
tee $W/copy < hello.txt | cat
cmp $W/copy hello.txt && xargs -n 1 echo < dir/a.txt
mapfile -t m < lines.txt
echo ${#m[@]} ${m[999]}
cat <<< $(< hello.txt)
cat < lines.txt < hello.txt
cat 3<&0 0< lines.txt | wc -l
exec < dir/a.txt
cat
