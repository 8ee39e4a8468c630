cd $M
cp @musl@ p
./p signals
PATH=$M:$PATH p files
printf '#!%s last\n' $M/p > s
chmod +x s
echo kept > kept
./s
/lib/ld-musl-x86_64.so.1 $M/p last
/lib/ld-musl-x86_64.so.1 @musl@ last
