mount --bind @at@/first @at@/host/none
mount --bind @at@/second @at@/host/none/new
@script@
