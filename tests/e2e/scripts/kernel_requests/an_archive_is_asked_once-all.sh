find @target@ -type f -exec cksum {} +
find @target@ -type l -exec readlink {} +
cat @target@/none 2>&1
