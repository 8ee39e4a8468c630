# Extensions for mounts of an ordinary user, by the loader service (`culvert extend`), inside a
# guest.
. /helpers.sh

# user_mounts DIR OPTIONS: as mount_at, by nobody.
user_mounts() {
  mkdir -p $1/s $1/m
  chmod 755 $1
  chown 65534:65534 $1/s $1/m
  as_nobody culvert mount -t passthrough -o "$2" $1/s $1/m 2>$1/said
  check "the mount of $1" $? 0
}

user_unmounts() {
  ending=$(as_told $1 server)
  as_nobody culvert umount $1/m
  check "the unmount of $1" $? 0
  while [ -d /proc/$ending ]; do usleep 1000; done
}

# As told, of nobody's mounts.
as_told() {
  culvert() { as_nobody /usr/bin/culvert "$@"; }
  told "$@"
  unset -f culvert
}

# serve OPTIONS: the service, until the next one.
serve() {
  [ -z "${service:-}" ] || { kill $service && wait $service; } 2>/dev/null
  culvert extend "$@" 2>>/tmp/service &
  service=$!
  for i in $(seq 100); do
    grep -q 'serving' /tmp/service && break
    usleep 20000
  done
  : >/tmp/service
}

ln -s /proc/mounts /etc/mtab
chmod u+s /usr/bin/fusermount3
chmod 666 /dev/fuse
mkdir -p /etc/culvert /run/user/65534
chown 65534:65534 /run/user/65534
all=extend=metadata+xattr,extend_entries=1024,valid=100000,absent=100000

user_mounts /tmp/user $all
check "without the service the mount goes on" \
  "$(grep -c 'is not used: the module is root.s, and there is no loader service' /tmp/user/said)" 1
user_unmounts /tmp/user
as_nobody culvert extend 2>/tmp/said
check "the service is root's" "$(grep -c 'is root.s' /tmp/said)" 1

serve
check "a second service" "$(culvert extend 2>&1 | grep -c 'there is a service')" 1
user_mounts /tmp/user $all
check "nothing was said of it" "$(cat /tmp/user/said)" ""
as_nobody mkdir /tmp/user/m/c
for name in $(seq 0 49); do as_nobody touch /tmp/user/m/c/$name; done
forget
check "memory of its tables" $(($(as_told /tmp/user extension:) > 256)) 1
lookups=$(as_told /tmp/user Lookup)
as_nobody sh -c 'cd /tmp/user/m/c && stat $(seq 0 49)' >/tmp/said 2>&1
lookups=$(($(as_told /tmp/user Lookup) - lookups))
check "all are there" "$(grep -c 'File: ' /tmp/said)" 50
check "lookups that a user's server hears of: $lookups" $((lookups <= 8)) 1

# The service keeps nothing: it may end, and counts on when it is back.
serve --programs 1
as_nobody touch /tmp/user/m/c/more
forget
lookups=$(as_told /tmp/user Lookup)
as_nobody sh -c 'cd /tmp/user/m/c && stat $(seq 0 49)' >/tmp/said 2>&1
lookups=$(($(as_told /tmp/user Lookup) - lookups))
check "all are there without the service" "$(grep -c 'File: ' /tmp/said)" 50
check "lookups without the service: $lookups" $((lookups <= 8)) 1
user_mounts /tmp/second $all
check "one program too many" \
  "$(grep -c 'is not used: the loader service: the user has 1 programs already' /tmp/second/said)" 1
user_unmounts /tmp/second
user_unmounts /tmp/user
user_mounts /tmp/second $all
check "one less" "$(cat /tmp/second/said)" ""
user_unmounts /tmp/second
serve --memory 1
user_mounts /tmp/second $all,extend_entries=16384
check "tables that are too large" "$(grep -c 'KiB of tables' /tmp/second/said)" 1
user_unmounts /tmp/second

# Objects by their sums.
serve
user_mounts /tmp/second extend=/example.o
check "an object that is not on the list" "$(grep -c 'is not on the list' /tmp/second/said)" 1
user_unmounts /tmp/second
sha256sum /example.o >/etc/culvert/extensions
user_mounts /tmp/second extend=/example.o
check "one that is" "$(cat /tmp/second/said)" ""
as_nobody touch /tmp/second/m/f
check "the server answers" "$(as_nobody stat -c %s /tmp/second/m/f)" 0
user_unmounts /tmp/second
chmod 666 /etc/culvert/extensions
user_mounts /tmp/second extend=/example.o
check "a list that others may write" \
  "$(grep -c 'others than root may write it' /tmp/second/said)" 1
user_unmounts /tmp/second

chmod 644 /etc/culvert/extensions
# Requests by hand: of a connection that is another user's, of mounts that users cannot make.
/loader >/tmp/said
status=$?
check "requests by hand: $(cat /tmp/said)" $status 0
passed=$((passed + $(sed -n 's/ passed.*//p' /tmp/said)))
kill $service
wait $service 2>/dev/null

# Started by a service manager when it is asked for, with that one's socket.
if [ -x /usr/bin/systemd-socket-activate ]; then
  rm -f /run/culvert/extend
  systemd-socket-activate --seqpacket --listen=/run/culvert/extend /usr/bin/culvert extend \
    2>/tmp/service &
  service=$!
  for i in $(seq 100); do
    [ ! -S /run/culvert/extend ] || break
    usleep 20000
  done
  chmod 666 /run/culvert/extend
  user_mounts /tmp/second $all
  check "by the socket of a service manager" "$(cat /tmp/second/said)" ""
  user_unmounts /tmp/second
  kill $service
fi
ended
