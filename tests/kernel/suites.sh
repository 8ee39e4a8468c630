# pjdfstest and the differential fuzzer (tests/differ) inside a guest, through mounts with
# extensions: the same answers as without. `whole` is for by hand (tests/kernel/suites).
. /helpers.sh
how=${1:-short}
kept=valid=100000,absent=100000
all=extend=metadata+xattr+log,extend_log=/tmp/log.json,$kept

echo 'daemon:x:1:1::/:/bin/sh' >>/etc/passwd
echo 'daemon:x:1:' >>/etc/group
mkdir -p /dev/shm/other /tmp/elsewhere /tmp/native
chmod 777 /dev/shm/other /tmp/elsewhere /tmp/native

# pjdfstest DIRECTORY OTHER-FILE-SYSTEM: the result of each test. The suite asks the C library for
# LINK_MAX, which guesses it from the device.
results() {
  /pjdfstest -c /pjdfstest.conf -s $2 -p $1 $patterns 2>/tmp/panics >/tmp/whole
  awk 'NF == 2 && $1 !~ /link_count_max/ && ($2 == "ok" || $2 == "skipped" || $2 == "FAILED")' \
    /tmp/whole | sort
}

# suite NAME OPTIONS [TYPE SOURCE]: the same as natively, or as the same mount without extension.
suite() {
  began=$(cut -d . -f 1 /proc/uptime)
  mount_at /tmp/$1 "$2" "${3:-passthrough}" "${4:-/tmp/$1/s}"
  check "nothing was said of $1" "$(grep -c extend /tmp/$1/said)" 0
  chmod 777 /tmp/$1/m
  results /tmp/$1/m /tmp/elsewhere >/tmp/$1/results
  cp /tmp/whole /tmp/$1/whole
  unmount /tmp/$1
  expected=/tmp/natively
  if ! diff /tmp/natively /tmp/$1/results >/dev/null; then
    rm -rf /tmp/$1/s
    mount_at /tmp/$1 "$(echo "$2" | sed 's/extend[^,]*,//g')" "${3:-passthrough}" "${4:-/tmp/$1/s}"
    chmod 777 /tmp/$1/m
    results /tmp/$1/m /tmp/elsewhere >/tmp/$1/without
    unmount /tmp/$1
    expected=/tmp/$1/without
  fi
  check "pjdfstest has the same results on $1" "$(diff $expected /tmp/$1/results)" ""
  diff $expected /tmp/$1/results | sed -n 's/^> \([^ ]*\) FAILED/\1/p' | while read -r name; do
    grep -A 12 "^$name " /tmp/$1/whole
  done
  echo "pjdfstest on $1: $(wc -l </tmp/$1/results) tests," \
    "$(($(cut -d . -f 1 /proc/uptime) - began)) s"
}

# fuzzer ARGUMENTS...: the differences that it finds, each once: the mounts of one call share them.
fuzzer() {
  CULVERT_BIN=/usr/bin/culvert DIFFER_EXECUTOR=/executor /differ "$@" >/tmp/differ 2>&1
  status=$?
  grep ' programs of ' /tmp/differ | sed 's/, [^,]*$//' >&2
  grep -E '^seed |: equal$|differ: |^/kept' /tmp/differ | sort -u
  return $status
}

# fuzzed ARGUMENTS...: what it finds on mounts with the extension it finds without it, too. On 6.1
# and 6.12 these are write, writev and pwrite with EFAULT or another count. The signatures suggest
# writes from mapped memory of which a part is not there, and FUSE as the cause; no program was
# shrunk to prove either.
fuzzed() {
  if ! fuzzer "$@" >/tmp/found; then
    fuzzer $(echo "$*" | sed 's/extend[^, ]*,//g') >/tmp/found.without
    cp /tmp/found /tmp/found.with
    sed 's/extend[^, "]*,//g' /tmp/found.with >/tmp/found
    check "the fuzzer finds the same: $*" "$(diff /tmp/found.without /tmp/found | head -n 40)" ""
    echo "the fuzzer, also without extension: $(grep -vc ': equal$' /tmp/found.without)"
  else
    passed=$((passed + 1))
  fi
}

# kinds OPTIONS: mounts of tests/differ, with these options.
kinds() {
  for kind in kernel kernel-bind kernel-log kernel-union; do
    echo --mount $kind,$1
  done
}

patterns=
if [ $how = short ]; then
  patterns='rename::e link:: chmod:: truncate::'
  results /tmp/native /dev/shm/other >/tmp/natively
  check "tests of pjdfstest" $(($(wc -l </tmp/natively) > 80)) 1
  suite all $all
  fuzzed fuzz --programs 2 --steps 40 --whole --into /tmp --mount kernel,$all
  ended
  exit
fi

results /tmp/native /dev/shm/other >/tmp/natively
check "tests of pjdfstest" $(($(wc -l </tmp/natively) > 380)) 1
for part in metadata xattr log,extend_log=/tmp/log.json metadata+xattr; do
  suite ${part%%,*} extend=$part,$kept
done
suite all $all
suite bind $all,layer=bind
suite logged $all,layer=log,log.file=/tmp/layer.log
mkdir -p /tmp/union/s /tmp/union/t
chmod 777 /tmp/union/s /tmp/union/t
suite union $all,minfreespace=0,category.create=ff union /tmp/union/s:/tmp/union/t
programs="fuzz --programs ${2:-40} --whole --into /tmp"
# shellcheck disable=SC2046,SC2086 # words are meant to split
fuzzed $programs $(kinds $all) --mount kernel,extend=metadata,$kept
fuzzed $programs $(kinds $all) --mapped
fuzzed replay /kept/*.txt --mount kernel,$all
ended
