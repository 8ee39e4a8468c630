# The suite on a server behind the kernel, then in a run; for himself alone, as a run's is.
cd '@place@'
mkdir source kernel run other
printf %s '@configuration@' > conf
bindfs --no-allow-other -o suid,dev source kernel
echo behind the kernel
'@pjdfstest@' -c conf -s other -p kernel
umount kernel
echo in a run
'@culvert@' run --no-private --mount type=fuse.bindfs,source=$PWD/source,target=$PWD/run,suid,dev -- \
    '@pjdfstest@' -c conf -s other -p run
