rm -rf s m in
mkdir -p s/sub/covered s/d m in/a
echo top > s/top
echo packed > in/a/f
tar -C in -cf in.tar a
exec $B/bin/culvert run @privacy@ -v s:m -v in.tar:m/sub -- bash -c '
             cd m/d; exec 5< . 6< ..; cat /dev/fd/5/../sub/a/f /dev/fd/6/sub/a/f; ls /dev/fd/5/../sub
             bash -c "cat /dev/fd/5/../sub/a/f /dev/fd/6/sub/a/f ../sub/a/f; ls /dev/fd/6/ /dev/fd/6/sub; cd /dev/fd/6/; cat top sub/a/f; mv top d/"
             cat top; python3 -c "import os; print(os.listdir(os.open(\"../sub\", os.O_RDONLY, dir_fd=5)))"'
