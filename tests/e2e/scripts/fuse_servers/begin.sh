# What the script of each server begins with: a tree to serve, and a place to show it.
set -eu
# Nothing else says which command it was.
trap 'echo "failed: $BASH_COMMAND" >&2' ERR
cd '@place@'
M=$PWD/target
mkdir target tree tree/d
seq 20000 > tree/big
echo hello > tree/file
ln -s file tree/link
for i in $(seq 60); do echo $i > tree/d/f$i; done
# run MOUNT SCRIPT: the script in a run with that mount.
run() {
    '@culvert@' run --mount "$1,target=$M" -- bash -ec "$2"
}
# Waits for the server's end, which is after the run's: what it writes then is there.
ended() {
    for i in $(seq 100); do
        pgrep -f "$M" > /dev/null || return 0
        sleep .1
    done
    return 1
}
export M
test ! -e /dev/fuse
