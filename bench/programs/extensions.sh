# Inside a guest: how many requests reach the server of a mount, by workload and by what answers in
# the kernel. A line for each: WORKLOAD|MOUNT|SECONDS|LOOKUP|GETATTR|GETXATTR|READ|WRITE|ALL
. /helpers.sh

# counts DIR: so many of each so far.
counts() {
  culvert list | awk -v place="$1/m" '/^[^ ]/ { here = index($0 " ", place " ") }
    here && $1 ~ /^[0-9]+$/ && NF == 2 && $2 != "requests" { of[$2] = $1; all += $1 }
    END { print of["Lookup"] + 0, of["Getattr"] + 0,
      of["Getxattr"] + of["Listxattr"] + 0, of["Read"] + 0, of["Write"] + 0,
      all - of["Forget"] - of["BatchForget"] + 0 }'
}

# counted WORKLOAD COMMAND...
counted() {
  what=$1
  shift
  before=$(counts $tree)
  began=$(date +%s.%N 2>/dev/null)
  "$@" >/tmp/out 2>&1 || echo "FAILED: $what in $tree: $(tail -n 1 /tmp/out)"
  ended=$(date +%s.%N)
  after=$(counts $tree)
  echo "$what|$mount|$began $ended|$before|$after" | awk -F '|' '{
    split($3, time, " "); split($4, was, " "); split($5, is, " ")
    printf "%s|%s|%.1f", $1, $2, time[2] - time[1]
    for (i = 1; i <= 6; i++) printf "|%d", is[i] - was[i]
    print "" }'
}

FILES=${FILES:-1000}
# The log and the files that come and go lie in directories of their own.
workloads() {
  counted create /workload create $tree/m/w $FILES 0
  forget
  counted read /workload read $tree/m/w $FILES $FILES
  mkdir -p $tree/m/w/$((FILES / 100)) $tree/m/w/$((FILES / 100 + 1)) $tree/m/w/$((FILES / 100 + 2))
  forget
  counted fileserver /workload fileserver $tree/m/w $FILES 300
  # Once before, as filebench runs it for minutes.
  /workload webserver $tree/m/w $FILES 100
  forget
  counted webserver /workload webserver $tree/m/w $FILES 100
  forget
  counted delete /workload delete $tree/m/w $FILES 0
}

# What is asked the second time, after the kernel has forgotten it, and when it has not.
second() {
  mkdir $tree/m/l
  for name in $(seq 0 199); do echo >$tree/m/l/$name; done
  cp -r /repository $tree/m/r
  cd $tree/m/r
  # Another mount, other inodes.
  git update-index --refresh -q
  cd /
  for round in 1 2; do
    /usr/bin/ls -l $tree/m/l >/dev/null
    /usr/bin/find $tree/m/r -size +0 >/dev/null
    git -C $tree/m/r status --short >/dev/null
  done
  counted 'ls -l of 200 files, at once' /usr/bin/ls -l $tree/m/l
  counted 'find, at once' /usr/bin/find $tree/m/r -size +0
  counted 'git status, at once' git -C $tree/m/r status --short
  forget
  counted 'ls -l of 200 files, caches dropped' /usr/bin/ls -l $tree/m/l
  forget
  counted 'find, caches dropped' /usr/bin/find $tree/m/r -size +0
  forget
  counted 'git status, caches dropped' git -C $tree/m/r status --short
}

export HOME=/tmp GIT_OPTIONAL_LOCKS=0
git config --global --add safe.directory '*'
long=valid=100000,absent=100000
for mount in Opt long MDOpt AllOpt; do
  tree=/tmp/$mount
  case $mount in
    Opt) mount_at $tree without=passthrough ;;
    long) mount_at $tree $long,without=passthrough ;;
    MDOpt) mount_at $tree $long,without=passthrough,extend=metadata+xattr ;;
    AllOpt) mount_at $tree $long,extend=metadata+xattr ;;
  esac
  cat $tree/said
  mkdir $tree/m/w
  workloads
  second
  unmount $tree
  rm -rf $tree
done
ended
