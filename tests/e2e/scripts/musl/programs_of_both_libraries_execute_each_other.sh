cd $M
echo kept > kept
@musl@ again
@glibc@ again
@musl@ files
bash -c '@musl@ forks' 2>&1 | cat
env -i @musl@ again
exec @musl@ last
