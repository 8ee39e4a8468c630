cp --preserve=timestamps @archive@ x.@kind@
export XDG_CACHE_HOME=$W/cache
c() { $B/bin/culvert run -v $W/x.@kind@:$M -- "$@"; }
