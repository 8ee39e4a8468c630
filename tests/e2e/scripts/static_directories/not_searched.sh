cd $M
mkdir -p d/listed/sub d/hidden
touch d/listed/file d/hidden/file
chmod 400 d/listed
chmod 100 d/hidden
cd d
busybox ls listed 2> /dev/null | busybox sort
busybox cat listed/file
busybox cat listed/sub/nothing
busybox ls
cd ..
chmod 700 d/listed d/hidden
