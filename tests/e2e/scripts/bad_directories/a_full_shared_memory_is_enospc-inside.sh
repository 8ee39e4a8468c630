cd $T
dd if=/dev/zero of=big bs=1M count=200
echo dd $?
echo more > small || echo small $?
test $(stat -c %s big) -gt 30000000 && test $(stat -c %s big) -lt 67108864 && echo filled
tail -c 10 big | od -An -c | head -n 1
rm big && fallocate -l 200M huge || echo fallocate $?
rm -f huge
dd if=/dev/zero of=again bs=1M count=20 2> /dev/null && echo again
stat -c %s again
