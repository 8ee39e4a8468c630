# What the tests of extensions inside a guest have in common. Run by busybox's sh; a script's last
# line is "N passed, N failed".
passed=0
failed=0

check() {
  if [ "$2" = "$3" ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $1: \"$2\" is not \"$3\""
  fi
}

# mount_at DIR OPTIONS [TYPE SOURCE]: the directory's tree `s`, or another source, at its `m`.
mount_at() {
  mkdir -p $1/s $1/m
  chmod 755 $1 $1/s
  culvert mount -t "${3:-passthrough}" --allow-other -o "$2" "${4:-$1/s}" $1/m 2>$1/said
  check "the mount of $1" $? 0
}

# unmount DIR: the server ends after its mount.
unmount() {
  ending=$(told $1 server)
  culvert umount $1/m
  while [ -d /proc/$ending ]; do usleep 1000; done
}

# told DIR WORD: the number beside the word in what `culvert list` says of the mount.
told() {
  culvert list |
    awk -v place="$1/m" -v word="$2" '/^[^ ]/ { here = index($0 " ", place " ") }
      here && $2 == word { print $1; found = 1 }
      here && $1 == word { print $2 + 0; found = 1 }
      END { if (!found) print 0 }'
}

as_nobody() {
  /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

# begin_service OBJECT DIR: the loader service lets the object in, and an ordinary user may mount at
# the directory's `m`, until `end_service`.
begin_service() {
  ln -sf /proc/mounts /etc/mtab
  chmod u+s /usr/bin/fusermount3
  chmod 666 /dev/fuse
  mkdir -p /run/user/65534
  chown 65534:65534 /run/user/65534 $2/m
  sha256sum $1 >/tmp/allowed
  : >/tmp/service
  culvert extend --allow /tmp/allowed 2>/tmp/service &
  service=$!
  until grep -q serving /tmp/service; do usleep 20000; done
}

end_service() {
  kill $service
  wait $service 2>/dev/null
}

forget() {
  sync
  # What was used lately stays at the first time.
  echo 2 >/proc/sys/vm/drop_caches
  echo 2 >/proc/sys/vm/drop_caches
}

# What programs see of a tree that changes, by names and numbers that do not depend on the place.
story() {
  cd $1/m
  seen() { stat -c '%n %s %a %h %u %F' "$@" 2>&1 | sed 's/.*: //'; }
  mkdir a b && echo one >a/f && seen a a/f a/none
  echo more >>a/f && seen a/f
  chmod 600 a/f && seen a/f
  ln a/f b/g && seen a/f b/g && echo x >>b/g && seen a/f
  mv a/f b/f && seen a/f b/f
  echo new >a/f && seen a/f && mv a/f b/f && seen a/f b/f b/g
  rm b/f && seen b/f b/g
  ln -s g b/l && seen b/l && readlink b/l
  mkdir b/d && mv b/d a/d && seen a/d b/d a b && rmdir a/d && seen a/d a
  truncate -s 100 b/g && seen b/g
  chown 5:6 b/g && stat -c '%u %g' b/g
  for i in 1 2 3; do echo $i >>b/g; forget; seen b/g b/none; done
  echo r >b/none && seen b/none
  # Of a file that is open: the kernel may write it by itself.
  { echo first; stat -c %s b/open; echo second; stat -c %s b/open; } >b/open 2>/dev/null
  cat b/open
  chmod 700 b && forget
  as_nobody stat -c %s b/g 2>&1 | sed 's/.*: //'
  chmod 755 b
  as_nobody stat -c %s b/g 2>&1
  chmod 700 b
  as_nobody stat -c %s b/g 2>&1 | sed 's/.*: //'
  chmod 755 b
  find . | sort
  cd /
}

ended() {
  echo "$passed passed, $failed failed"
  [ $failed = 0 ]
}
