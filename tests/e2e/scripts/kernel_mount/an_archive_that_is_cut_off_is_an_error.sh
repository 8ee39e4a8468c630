size=$(stat -c %s @target@/n)
truncate -s 8192 @archive@
cat @target@/n 2>&1 > /dev/null | grep -q 'Input/output error' || exit 1
[ "$(head -c 1000 @target@/n | cksum)" = "$(seq 1 1000 | head -c 1000 | cksum)" ] || exit 2
[ "$(stat -c %s @target@/n)" = "$size" ] || exit 3
