exec 3< f
head -c 4 <&3
echo new > $S/f
touch -d @77 $S/f
stat f > /dev/null
python3 -c 'import os; print(os.pread(3, 9, 0))'
