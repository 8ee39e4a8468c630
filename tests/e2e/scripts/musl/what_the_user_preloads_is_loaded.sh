@make@
export LD_PRELOAD=$W/p.so
exec $B/bin/culvert run -v $B/bin:$W/t @program@ environment
