test $(stat -c %s numbers) = 1293895
tail -c 4 numbers | grep -q end
cmp copy again
