$C run --no-private --page-memory 12M -v $N -- $P stores $T/4
$P sums $S/4
$C run --no-private -v $N -- $P store $T/large
$C run --no-private -v $N -- cmp $S/large $T/large
