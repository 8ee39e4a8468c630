rm -rf s m in
mkdir -p s/sub/covered s/d m in/a
echo top > s/top
echo packed > in/a/f
ln -s ../top in/up
tar -C in -cf in.tar a up
exec $B/bin/culvert run @privacy@ -v s:m -v in.tar:m/sub -- bash -c '
             cd m; ls; ls sub; cat sub/a/f sub/up sub/../top d/../sub/a/f; cd d; cat ../sub/a/f
             cd ../sub/a; cat f ../../top ../up; /bin/pwd | grep -o "m/.*"; cd ../..; /bin/pwd | grep -o "/m$"
             ln -s sub/a/f l; ln -s ../sub d/back; cat l d/back/a/f d/back/../top; find . | sort
             for c in "mkdir sub/x" "mv sub x" "rmdir sub" "mv top sub/top"; do $c 2>/dev/null && echo $c works; done; ls'
