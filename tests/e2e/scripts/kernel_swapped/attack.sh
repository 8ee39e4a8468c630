seen() { for m in "$@"; do grep -c " $W/$m " /proc/self/mountinfo; done | tr "\n" " "; }
try() {
    mkdir -p theirs/m a/d/m
    $CULVERT mount $PWD/s1 $PWD/theirs/m && $CULVERT mount $1 $PWD/s2 $PWD/a/d/m || exit 1
    SERVERS=$(pgrep -f "mount $1 *$PWD/s2" | tr "\n" " ")
    oldest=${SERVERS%% *}
    set -- "$1" "$2" $SERVERS
    newest=${!#}
    mv a/d a/old
    ln -s ../theirs a/d
    eval "$2"
    for i in $(seq 500); do
        grep -q " $W/a/old/m " /proc/self/mountinfo || break
        sleep .01
    done
    seen theirs/m a/old/m
    echo
    for m in theirs/m a/old/m; do $CULVERT umount --lazy $m 2> /dev/null; done
    rm -rf a theirs
}
cd $W
mkdir s1 s2
try "-o valid=1" "kill -TERM \$newest"
try "--restart" "kill -TERM \$oldest"
try "--restart" "kill -STOP \$newest; kill -TERM \$oldest; kill -KILL \$newest"
try "-o valid=1" "\$CULVERT umount \$PWD/a/old/m"
