export XDG_RUNTIME_DIR=$W/run
mkdir -m 700 run
count() { find run /dev/shm/culvert-$(id -u) -mindepth 1 -newer stamp 2> /dev/null \
    | xargs -r grep -ls left-behind-marker 2> /dev/null | wc -l; }
touch stamp
mkdir left-behind-marker
$B/bin/culvert run -v $B/hostile/good.tar:$W/left-behind-marker -- bash -c 'cat left-behind-marker/a; (exec 3<left-behind-marker/d/b; busybox head -c 1 <&3 >/dev/null; bash -c "md5sum <&3" >/dev/null)'
$B/bin/culvert run -v $B/hostile/good.tar:$W/left-behind-marker -- true
$B/bin/culvert run -v $B/hostile/text.tar:$W/left-behind-marker -- true 2> /dev/null
find . -name '*.tmp' -o -name '*.new'
find $HOME -name '*.tmp'
count
