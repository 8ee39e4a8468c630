set -e
cd @place@
mkdir -p a b c m
touch a/1 b/2 c/3
for how in seq cor; do
    @culvert@ mount -f -t union -o minfreespace=0,func.readdir=$how $PWD/a:$PWD/b:$PWD/c m &
    server=$!
    until mountpoint -q m; do :; done
    # Each branch takes its time.
    strace -f -qq -o trace -e trace=getdents64 -e inject=getdents64:delay_enter=100000 -p $server 2> said &
    tracer=$!
    until grep -q TracerPid:.[1-9] /proc/$server/status; do :; done
    ls m > listed
    @culvert@ umount m
    wait $tracer || :
    [ "$(echo $(cat listed))" = "1 2 3" ] || cat listed
    if grep -q unfinished trace; then echo $how: at once; else echo $how: in turn; fi
done
