rm -rf s above
mkdir -p s above/m new
echo beside > above/beside
echo file > s/file
unshare -m sh -c "mount --bind s above/m; exec @program@ $PWD/above/m $PWD/new" > native
$B/bin/culvert run --private -v s:above/m -- @program@ $PWD/above/m $PWD/new > inside
diff native inside && cat inside
