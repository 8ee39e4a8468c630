exec 2>&1
mount --bind -o ro @at@/host/a @at@/host/a
mount --bind @at@/first @at@/host/a/b/c
mount --bind @at@/second @at@/host/a/b/d
@script@
