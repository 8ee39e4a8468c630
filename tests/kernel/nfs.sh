# plfs on NFS 4.2, in a guest: the kernel's own server, and two nodes (network, mount and host name
# namespaces) that each mount its export. The last line is "N passed, N failed".
. /helpers.sh
for module in sunrpc grace lockd nfs_acl auth_rpcgss nfsd netfs dns_resolver nfs nfsv4 veth; do
  [ ! -e /modules/$module.ko ] || insmod /modules/$module.ko || echo "no $module"
done

# The server. What exportfs and mountd would tell the kernel.
mkdir -p /export /var/lib/nfs/v4recovery /mnt/nfs /mnt/ckpt
mount -t tmpfs -o mode=1777 export /export
mount -t nfsd nfsd /proc/fs/nfsd
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
for node in 1 2; do
  echo "nfsd 10.99.$node.2 2147483647 nodes" >/proc/net/rpc/auth.unix.ip/channel
done
# Any port, no check of subtrees, fsid=0; root is root.
echo "nodes /export 2147483647 9218 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
echo 'nodes 1 \x00000000 2147483647 /export' >/proc/net/rpc/nfsd.fh/channel

# Nodes.
for node in 1 2; do
  /usr/bin/unshare -n -m -u sh -c "hostname node$node; exec sleep 36000" &
  holder=$!
  eval "holder$node=$holder"
  until [ "$(cat /proc/$holder/comm)" = sleep ] &&
    [ "$(readlink /proc/$holder/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
  /usr/bin/ip link add v$node type veth peer name eth0 netns $holder
  /usr/bin/ip addr add 10.99.$node.1/24 dev v$node
  /usr/bin/ip link set v$node up
  /usr/bin/nsenter -t $holder -n /usr/bin/ip addr add 10.99.$node.2/24 dev eth0
  /usr/bin/nsenter -t $holder -n /usr/bin/ip link set eth0 up
  /usr/bin/nsenter -t $holder -n /usr/bin/ip link set lo up
done
on() {
  eval "holder=\$holder$1"
  shift
  /usr/bin/nsenter -t $holder -n -m -u "$@"
}
# No version that wants rpcbind.
echo "-3 +4" >/proc/fs/nfsd/versions
echo "tcp 2049" >/proc/fs/nfsd/portlist
echo 8 >/proc/fs/nfsd/threads
echo Y >/proc/fs/nfsd/v4_end_grace 2>/dev/null
for node in 1 2; do
  on $node /usr/bin/mount -i -t nfs4 -o "vers=4.2,addr=10.99.$node.1,clientaddr=10.99.$node.2,lookupcache=none" \
    10.99.$node.1:/ /mnt/nfs
  check "the mount of node $node" $? 0
done
on 1 sh -c 'echo seen >/mnt/nfs/seen'
check "nodes share" "$(on 2 cat /mnt/nfs/seen)" seen
on 1 mkdir /mnt/nfs/back
[ "$failed" = 0 ] || { dmesg | tail -n 20; echo "$passed passed, $failed failed"; exit 1; }

step() {
  echo "$(cut -d. -f1 /proc/uptime) s: $1"
}

# run NODE OPTIONS COMMAND...
run() {
  node=$1 options=$2
  shift 2
  on $node env PATH=/usr/bin:/bin culvert run --mount type=plfs,source=/mnt/nfs/back,target=/mnt/ckpt$options -- "$@"
}

# agree NAME COUNT LETTERS: both nodes find those records and nothing else.
agree() {
  step "both read $1"
  for node in 1 2; do
    said=$(run $node "" /nfs check /mnt/ckpt/$1 $2 $3 2>&1)
    check "$1 on node $node, $said" $? 0
    eval "said$node=\$said"
  done
  check "$1 on both" "$said1" "$said2"
}

# appenders NAME COUNT OPTIONS: four, two on each node.
appenders() {
  step "appenders, $1"
  waited=
  for one in "1 A" "2 B" "1 C" "2 D"; do
    run ${one% *} "$3" /nfs append /mnt/ckpt/$1 ${one#* } $2 &
    waited="$waited $!"
  done
}

all_end() {
  for pid in $waited; do
    wait $pid
    check "a process of $1" $? 0
  done
}

said=$(run 1 "" true 2>&1)
check "no warning" "$said" ""

appenders locks 40 ""
all_end locks
agree locks 40 ABCD

# serve NODE: the process is the service itself, to be killed.
serve() {
  eval "holder=\$holder$1"
  (exec /usr/bin/nsenter -t $holder -n -m -u culvert sync --socket /tmp/sync.$1 \
    --hosts /mnt/nfs/back --listen 10.99.$1.2:4711 2>/tmp/told.$1) &
  eval "service$1=$!"
}
# A route between the nodes, by the server.
echo 1 >/proc/sys/net/ipv4/ip_forward
for node in 1 2; do on $node /usr/bin/ip route add default via 10.99.$node.1; done
serve 1
for turn in $(seq 300); do grep -q "epoch 1" /tmp/told.1 && break; usleep 100000; done
serve 2
for turn in $(seq 300); do grep -q waiting /tmp/told.2 && break; usleep 100000; done
check "the first service" "$(grep -c 'epoch 1' /tmp/told.1)" 1
check "the second one waits" "$(grep -c waiting /tmp/told.2)" 1
appenders service 40 ,sync=hosts
all_end service
agree service 40 ABCD
# The first one dies meanwhile.
appenders killed 60 ,sync=hosts
usleep 1500000
kill -9 $service1
all_end killed
agree killed 60 ABCD
for turn in $(seq 300); do grep -q "epoch 2" /tmp/told.2 && break; usleep 100000; done
check "the next one" "$(grep -c 'epoch 2' /tmp/told.2)" 1
appenders next 20 ,sync=hosts
all_end next
agree next 20 ABCD
kill $service2

# At offsets of their own, between each other.
step strided
waited=
for one in 0 1 2 3; do
  run $((one % 2 + 1)) "" /nfs strided /mnt/ckpt/strided $one 4 50 &
  waited="$waited $!"
done
all_end strided
want=$(for turn in $(seq 50); do for one in A B C D; do
  head -c 1000 /dev/zero | tr '\0' $one; done; done | md5sum)
for node in 1 2; do
  check "strided on node $node" "$(run $node "" md5sum </dev/null /mnt/ckpt/strided | cut -c 1-32)" \
    "${want%% *}"
done

# Record locks exclude, and who has one sees what was written under it.
step "record locks"
waited=
for one in 1 2 1 2; do
  run $one "" /nfs count /mnt/ckpt/count 10 &
  waited="$waited $!"
done
all_end count
for node in 1 2; do check "the count on node $node" "$(run $node "" cat /mnt/ckpt/count)" 00000040; done

# A cut on the other node is seen by who appends.
step "a cut"
run 1 "" sh -c 'cd /mnt/ckpt; echo one >>cut; echo go >/mnt/nfs/go
  until [ -e /mnt/nfs/went ]; do sleep 0.05; done; echo three >>cut' &
for turn in $(seq 300); do on 2 test -e /mnt/nfs/go && break; usleep 100000; done
run 2 "" sh -c 'cd /mnt/ckpt; truncate -s 0 cut; echo two >>cut'
on 2 touch /mnt/nfs/went
wait $!
check "a cut" "$(run 2 "" cat /mnt/ckpt/cut | tr '\n' ' ')" "two three "

# Small files of both in one directory; what one node has closed the other one has.
step "small files"
for node in 1 2; do
  run $node ,workload=small_file sh -c "mkdir -p /mnt/ckpt/small; cd /mnt/ckpt/small
    for one in 1 2 3 4 5 6 7 8; do echo $node \$one >f.$node.\$one; echo more >>f.$node.\$one; done
    mv f.$node.1 g.$node; rm f.$node.2" &
  eval "maker$node=$!"
done
wait $maker1 && wait $maker2
check "makers of small files" $? 0
for node in 1 2; do
  said=$(run $node ,workload=small_file sh -c 'cd /mnt/ckpt/small; ls | wc -l; cat g.1 g.2 f.2.8' |
    tr '\n' ' ')
  check "small files on node $node" "$said" "14 1 1 more 2 1 more 2 8 more "
done

# Names: renamed and removed on one node, listed on the other one.
step names
run 1 "" sh -c 'cd /mnt/ckpt; mv locks moved; rm next'
said=$(run 2 "" ls /mnt/ckpt | tr '\n' ' ')
check "names" "$said" "SMALLFILECONTAINER count cut killed moved service small strided "
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
