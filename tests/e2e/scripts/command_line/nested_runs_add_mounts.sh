cat $M/hello.txt
'@culvert@' run -v @good_mount@ -- bash -c 'cat $M/hello.txt $B/other/a; cd $M; cat $B/other/a; exec 3<$B/other/a; '@culvert@' run -- cat $M/dir/a.txt $B/other/a <&3'
cat $B/other/a
