$C run --no-private -v $N -- $P sparse $T/sparse
rm $S/sparse
$P sparse $S/sparse 2> /dev/null
