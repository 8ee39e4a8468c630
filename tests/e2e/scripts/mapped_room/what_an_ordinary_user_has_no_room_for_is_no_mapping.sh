$R $C run --no-private -v $N -- $P scan $T/large
$R $C run --no-private -v $N -- $P each $T/1 $T/2 $T/3 $T/4 $T/1
$R $C run --no-private -v $N -- $P both $T/4 $T/1
$R $C run --no-private --page-memory 100M -v $N -- $P scan $T/large
