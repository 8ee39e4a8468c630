wc include/*.h | tail -n 1
sort include/*.h | uniq -c | sort -rn | head -n 20
head -n 3 include/stdio.h
tail -n 3 include/stdio.h
cat include/*.h | tr a-z A-Z | md5sum
awk 'END { print NR }' include/*.h
cut -c 1-10 include/stdio.h | md5sum
sed -n '10,20p' include/stdio.h
tac include/stdio.h | md5sum
od -c include/stdio.h | tail -n 2
split -b 1000 include/stdio.h $W/part && cat $W/part* | cmp - include/stdio.h
nl include/errno.h | tail -n 1
paste include/errno.h include/ctype.h | md5sum
comm -12 <(sort include/errno.h) <(sort include/ctype.h) | md5sum
less include/errno.h | md5sum
more include/errno.h | md5sum
strings include/errno.h | md5sum
file include/errno.h 2> /dev/null
xz -c include/stdio.h | xz -d | cmp - include/stdio.h
gzip -c include/stdio.h | gzip -d | md5sum
dd if=include/stdio.h bs=100 skip=3 count=2 status=none | md5sum
