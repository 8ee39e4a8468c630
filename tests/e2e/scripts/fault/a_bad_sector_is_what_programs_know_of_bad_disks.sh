exec 2>&1
cd $M
cat lines.txt | wc -c
cat < lines.txt | wc -c
dd if=lines.txt of=/dev/null bs=1000 2>&1 | head -3
dd if=lines.txt bs=1000 skip=3 2> /dev/null | wc -c
cp lines.txt $W/copy 2>&1 | grep -c 'Input/output error'
stat -c %s $W/copy
cat hello.txt
