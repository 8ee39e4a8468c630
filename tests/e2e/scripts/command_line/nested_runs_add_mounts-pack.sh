mkdir in
echo innermost > in/file
tar cf inner.tar in
tar cf outer.tar inner.tar
exec $B/bin/culvert run -v outer.tar:$B/other -- $B/bin/culvert run -v $B/other/inner.tar:$B/mnt2 -- cat $B/mnt2/in/file
