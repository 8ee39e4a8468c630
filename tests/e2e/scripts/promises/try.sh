run="$culvert run --no-private -v memory:$real --"
chmod 777 $real
write="echo a > $real/y && ls $real"
try() {
    local name=$1 uid=$2
    shift 2
    (as $uid timeout 30 "$@") > $W/out 2> $W/err
    local status=$?
    [ -z "$(ls $real)" ] || {
        echo -n 'STRAYED '
        rm -f $real/*
    }
    echo "$name: $status $(tr '\n' ' ' < $W/out)" | sed 's/ *$//'
    grep -v '^ ' $W/err | sed -n 's/^/    /;1,2p'
}
