Q=@program@
touch $S/mine $S/theirs
chmod 666 $S/mine $S/theirs
$C run --no-private -v $N -- $Q append $T/mine $S/mine /dev/shm/ballast
$R $C run --no-private -v $N -- $Q append $T/theirs $S/theirs /dev/shm/ballast
