cd $M
cat lines.txt | md5sum
cp -r dir $W/copy
diff -r dir $W/copy
cmp hello.txt <(cat hello.txt)
grep -c 9 lines.txt
sort -r lines.txt | head -2
gzip -c lines.txt | md5sum
python3 -c 'print(len(open("lines.txt").read()))'
