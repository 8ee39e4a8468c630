set -e
cd @place@
echo old > source/f
@culvert@ mount --without passthrough -t bind -o @options@ $PWD/source target
exec 5< target/f
head -c 4 <&5
# Behind the mount, in the same length.
printf new | dd of=source/f conv=notrunc status=none
python3 -c 'import os; print(os.pread(5, 4, 0).decode(), end="")'
exec 5<&-
@culvert@ umount target
