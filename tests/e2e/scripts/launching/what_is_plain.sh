# Whether a launch executes the whole command: "plain" or "whole", and the exit status.
cp -r /usr/share/common-licenses/GPL-3 $evil
tar -C $W -cf $W/a.tar evil
ln -s evil $W/link
mkdir -m 755 $W/covered $W/home
chmod 777 $W
cat > $W/stores.py <<'END'
import mmap, os, sys
gone, target = sys.argv[1:]
file = open(target + "/m", "r+b")
memory = mmap.mmap(file.fileno(), 4096)
memory[0] = 65
os.rename(gone, gone + "-away")
os.kill(os.getpid(), 9)
END
show() {
    local uid=$1 status
    shift
    as $uid strace -f -e trace=execve,open,openat -o $W/trace.$uid -- "$@" > /dev/null 2>&1 < /dev/null
    status=$?
    if grep -q 'culvert-full".* = 0' $W/trace.$uid; then
        echo "whole $status: ${words:-$*}"
    # Nothing is loaded into the first stage.
    elif sed '/culvert", .* = 0/,$!d; 1d; /execve(/,$d' $W/trace.$uid | grep -q 'ld.so\|libc.so'; then
        echo "loads $status: ${words:-$*}"
    else
        echo "plain $status: ${words:-$*}"
    fi
}
run() {
    words=${words:-$*} show $uid env -C $W HOME=$W/home $culvert run "$@"
}
rule=fault.rule=read+after=1000000000+errno=EIO
for uid in 0 65533; do
    echo "as $uid"
    as $uid $culvert run -- true
    run true
    run -- true
    run -- work/../true
    run -v $evil:$W/new -- cat $W/new/f
    run -v $evil:$W/new:ro cat $W/new/f
    run --no-private -v $evil:$real cat $real/f
    run -v $evil:$real cat $real/f
    run -v ./evil/:new// cat new/f
    run --volume=evil:new --mount=type=memory,target=other cat new/f
    run --mount type=passthrough,source=evil,target=new cat new/f
    run -v memory:new touch new/f
    run -- $look
    run -v a.tar:new cat new/evil/f
    run -v link:new cat new/f
    run -v evil:link/x true
    run -v evil:new/deep cat new/deep/f
    run -v evil:new -v evil:new/inner cat new/inner/f
    run -v evil:new new/look
    run -v evil:evil true
    run -v nothing:new true
    run -v evil:new -- nothing
    run -v evil:new -- /etc/passwd
    run -v evil:new:nothing true
    run --strict true
    run --no-patch true
    run --help
    words=nothing run
    words='in a run' show $uid $culvert run -- $culvert run true
    words='LD_AUDIT' show $uid env LD_AUDIT=$lib $culvert run true
    words='no PATH' show $uid env -u PATH $culvert run true
    words='data' show $uid prlimit --data=1000000000 $culvert run true
    words='version' show $uid $culvert version
    mv /dev/shm/culvert-$uid $W/moved-$uid
    words='no base' show $uid $culvert run true
    words='base' show $uid $culvert run true
    # What a killed program has stored is kept while its source is gone.
    gone=$W/home/$uid
    mkdir $gone
    truncate -s 4096 $gone/m
    chown -R $uid $W/home
    (as $uid $culvert run --mount type=passthrough,source=$gone,target=$W/new,layer=fault,$rule \
        -- python3 $W/stores.py $gone $W/new > /dev/null 2>&1)
    for _ in $(seq 100); do
        ls /dev/shm/culvert-$uid/*/kept > /dev/null 2>&1 && break
        as $uid $culvert run true < /dev/null > /dev/null 2>&1
        sleep 0.1
    done
    words='source gone' show $uid $culvert run true
    mkdir $gone
    words='source back' show $uid $culvert run true
    chmod 755 /dev/shm/culvert-$uid
    words='open base' show $uid env XDG_RUNTIME_DIR=/ $culvert run true
    rm -rf /dev/shm/culvert-$uid
    ln -s $W/moved-$uid /dev/shm/culvert-$uid
    words='link' show $uid $culvert run true
    rm /dev/shm/culvert-$uid
    as 65531 mkdir -m 700 /dev/shm/culvert-$uid
    words='taken' show $uid $culvert run true
    rm -rf /dev/shm/culvert-$uid*
done
