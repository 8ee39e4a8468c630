# The extensions `xattr` and `log` inside a guest, and all of them under other drivers and layers
# than passthrough: the same answers as without, and what the server hears of.
. /helpers.sh

get() {
  getfattr --only-values -n "$1" "$2" 2>&1 | sed 's/.*: //'
  echo
}

# What programs see of the extended attribute $2 of files in $1 that change.
xattr_story() {
  cd $1/m
  echo >f && ln f g
  get $2 f && setfattr -n $2 -v one f && get $2 f && get $2 f && get $2 g
  setfattr -n $2 -v two g && get $2 f && get $2 g
  echo more >>f && get $2 f
  setfattr -n $2 -v $(printf %0300d 7) f && get $2 f && get $2 g && get $2 f
  setfattr -n $2 -v short f && get $2 f && mv g h && get $2 h
  as_nobody getfattr --only-values -n $2 h 2>&1 | sed 's/.*: //'
  chmod 600 f && as_nobody getfattr --only-values -n $2 h 2>&1 | sed 's/.*: //'
  getfattr -d -m - h && getfattr -d -m - h && as_nobody getfattr -d -m - h
  setfattr -n $2 -v '' f && get $2 f && getfattr -d -m - h
  setfattr -x $2 f && get $2 f && get $2 h && getfattr -d -m - h && get $2 h
  setfattr -n $2 -v last f && rm f && get $2 h && rm h
  # The number may be another file's now.
  echo >f && get $2 f && setfattr -n $2 -v new f && get $2 f
  i=0
  while [ $i -lt 20 ]; do
    setfattr -n $2 -v $i f && get $2 f
    i=$((i + 1))
  done
  cd /
}

all=extend=metadata+xattr
mount_at /tmp/with $all,valid=100000,absent=100000
mount_at /tmp/without valid=100000,absent=100000
# Of the kernel's own file system in memory before 6.6 there are no others.
xattr_story /tmp/with security.selinux >/tmp/said.with 2>&1
xattr_story /tmp/without security.selinux >/tmp/said.without 2>&1
check "the same values" "$(diff /tmp/said.with /tmp/said.without | head -n 20)" ""
check "there are values" "$(grep -c '^two$' /tmp/said.with)" 3
mount_at /tmp/memory.with $all memory memory
mount_at /tmp/memory.without valid=100000 memory memory
xattr_story /tmp/memory.with user.a >/tmp/said.with 2>&1
xattr_story /tmp/memory.without user.a >/tmp/said.without 2>&1
check "the same values in memory" "$(diff /tmp/said.with /tmp/said.without | head -n 20)" ""
check "there are values in memory" "$(grep -c '^two$' /tmp/said.with)" 3
unmount /tmp/memory.with
unmount /tmp/memory.without

# Of 50 files, also when they are written to: what the server is asked for the second time.
for tree in /tmp/with /tmp/without; do
  cd $tree/m
  for name in $(seq 0 49); do echo >$name; done
  setfattr -n security.selinux -v label $(seq 0 49)
  getfattr -n security.selinux $(seq 0 49) >/dev/null
  getfattr -d -m - $(seq 0 49) >/dev/null
  for name in $(seq 0 49); do echo more >>$name; done
  values=$(told $tree Getxattr) lists=$(told $tree Listxattr)
  getfattr -n security.selinux $(seq 0 49) >/tmp/said
  getfattr -d -m - $(seq 0 49) >>/tmp/said
  check "values in $tree" "$(grep -c '="label"' /tmp/said)" 100
  values=$(($(told $tree Getxattr) - values)) lists=$(($(told $tree Listxattr) - lists))
  cd /
  echo "$tree: $values getxattrs, $lists listxattrs"
  eval "asked_${tree##*/}=$((values + lists))"
done
check "requests for xattrs the second time: $asked_with" $((asked_with <= 8)) 1
check "without the extension for each" $((asked_without >= 200)) 1
# Nor when the kernel has dropped the inodes, and a listing has brought them again.
forget
ls -l /tmp/with/m >/dev/null
values=$(told /tmp/with Getxattr)
cd /tmp/with/m
getfattr -n security.selinux $(seq 0 49) >/tmp/said
cd /
values=$(($(told /tmp/with Getxattr) - values))
check "values" "$(grep -c '="label"' /tmp/said)" 50
check "requests for values of dropped inodes: $values" $((values <= 4)) 1
# What is asked before a new file is written to for the first time.
values=$(told /tmp/with Getxattr)
for name in $(seq 100 119); do echo new >/tmp/with/m/$name; done
values=$(($(told /tmp/with Getxattr) - values))
check "requests for capabilities of new files: $values" $((values <= 2)) 1
# Others than root are shown a list that may be shorter, and get no other's.
as_nobody getfattr -d -m - /tmp/with/m/7 2>/dev/null | grep -v '^$' >/tmp/said
as_nobody getfattr -d -m - /tmp/without/m/7 2>/dev/null | sed 's/without/with/' | grep -v '^$' |
  diff - /tmp/said >/tmp/differs
check "the list for another user" "$(cat /tmp/differs)" ""
# Whatever is asked at random.
mkdir /tmp/with/m/random /tmp/without/m/random
for seed in 1 2 3; do
  /random /tmp/with/m/random /tmp/without/m/random $seed 2000 >/tmp/said
  check "the same answers to random calls" "$(cat /tmp/said)" "1 passed, 0 failed"
done
unmount /tmp/with
unmount /tmp/without

# A small table forgets, and answers nothing wrong.
mount_at /tmp/small $all,extend_entries=1024,valid=100000,absent=100000
cd /tmp/small/m
for name in $(seq 0 1499); do echo $name >$name; done
wrong=0
for round in 1 2; do
  stat -c '%n %s' $(seq 0 1499) >/tmp/said
  wrong=$((wrong + $(awk '$2 != length($1) + 1' /tmp/said | wc -l)))
done
cd /
check "sizes of more files than the table has places" $wrong 0
unmount /tmp/small

# The log: of one user alone, whoever answers.
mount_at /tmp/log extend=metadata+log,extend_log=/tmp/log.json,extend_uid=65534+7,valid=100000
echo >/tmp/log/m/f
echo >/tmp/log/m/root
mv /tmp/log/m/root '/tmp/log/m/a "name"'
forget
for round in 1 2 3; do
  as_nobody stat /tmp/log/m/f >/dev/null
  forget
done
as_nobody cat /tmp/log/m/none 2>/dev/null
as_nobody mv /tmp/log/m/f '/tmp/log/m/a "name"' 2>/dev/null
unmount /tmp/log
check "the log is of one user" "$(grep -vc '"uid":65534,"gid":65534,' /tmp/log.json)" 0
check "what the server was asked" \
  "$(($(grep -c '"op":"Lookup","node":1,"name":"none",.*"by":"server"' /tmp/log.json) >= 1))" 1
check "what the kernel answered" \
  "$(($(grep -c '"op":"Lookup","node":1,"name":"f",.*"by":"kernel"' /tmp/log.json) >= 2))" 1
check "no record was lost" "$(grep -c dropped /tmp/log.json)" 0
check "others cannot read it" "$(stat -c %a /tmp/log.json)" 600
# Of all users, and full names.
mount_at /tmp/log extend=log,extend_log=/tmp/all.json
mv '/tmp/log/m/a "name"' /tmp/log/m/b
as_nobody stat /tmp/log/m/b >/dev/null
unmount /tmp/log
check "both names of a rename" \
  "$(($(grep -c '"op":"Rename.*,"name":"a \\"name\\"","to":"b","uid":0,' /tmp/all.json) >= 1))" 1
check "another user" "$(($(grep -c '"uid":65534,' /tmp/all.json) >= 1))" 1

# An author's object, of extensions/example: it has no names that are hidden, and asks the server.
mount_at /tmp/example extend=/example.o
check "nothing was said of it" "$(cat /tmp/example/said)" ""
check "its map has memory" $(($(told /tmp/example extension:) > 0)) 1
echo >/tmp/example/m/f
check "the server answers" "$(as_nobody stat -c %s /tmp/example/m/f)" 1
unmount /tmp/example
mount_at /tmp/example extend=/helpers.sh
check "what is no object" \
  "$(grep -c 'extend=/helpers.sh is not used: it is no object' /tmp/example/said)" 1
check "and the mount goes on" "$(stat -c %s /tmp/example/m/f)" 1
unmount /tmp/example

# layered NAME LOOKUPS OPTIONS [TYPE]: the same answers over another driver, or under a layer; at
# most so many lookups of 50 names when the kernel has forgotten them.
layered() {
  for how in with without; do
    tree=/tmp/$1.$how
    mkdir -p $tree/s $tree/t
    chmod 755 $tree/t
    given=valid=100000,absent=100000$3
    [ $how = without ] || given=$all,$given
    source=$tree/s
    [ "${4:-}" != union ] || source=$tree/s:$tree/t
    mount_at $tree "$(echo "$given" | sed "s/HOW/$how/")" "${4:-passthrough}" "$source"
    check "nothing was said of $tree" "$(grep -c extend $tree/said)" 0
    story $tree >/tmp/said.$how
    mkdir $tree/m/c
    for name in $(seq 0 49); do echo >$tree/m/c/$name; done
    # The server has read attributes anew when they were closed.
    forget
    lookups=$(told $tree Lookup) attributes=$(told $tree Getattr)
    cd $tree/m/c
    stat $(seq 0 49) >/dev/null
    cd /
    lookups=$(($(told $tree Lookup) - lookups))
    attributes=$(($(told $tree Getattr) - attributes))
    echo "$tree: $lookups lookups, $attributes getattrs of 50 names"
    eval "lookups_$how=$lookups"
    unmount $tree
  done
  check "something could be made on $1" "$(grep -c '^./b$' /tmp/said.with)" 1
  check "the same answers of $1" "$(diff /tmp/said.with /tmp/said.without | head -n 20)" ""
  check "lookups that $1 hears of: $lookups_with of $lookups_without" \
    $((lookups_with <= $2)) 1
}

layered bind 4 ,layer=bind,bind.perms=a+r
# The first branch has room, and gets all that is new: which one would else be drawn.
layered union 4 ,minfreespace=0,category.create=ff union
layered log 4 ,layer=log,log.file=/tmp/HOW.log
# Names in whatever case are asked for each time.
layered sdcard 60 ,layer=sdcard,sdcard.view=write
ended
