for b in 1 4096 300K; do $C run --no-private --page-memory $b -v $N -- $P each $T/1; done
$R $C run --no-private --page-memory 4096 -v $N -- $P each $T/1
$C run --no-private --page-memory 16777215T -v $N -- $P each $T/1
