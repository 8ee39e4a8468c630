T=/sys/kernel/tracing
[ -d $T/events/fuse ] || mount -t tracefs tracefs $T 2> /dev/null
[ -d $T/events/fuse ] || exit 77
I=$T/instances/culvert-$$
mkdir $I || exit 77
trap 'rmdir $I' EXIT
E=$I/events/fuse/fuse_request_send
device=$(stat -c %d @target@)
echo "connection == $((device >> 12 & ~255 | device & 255))" > $E/filter || exit 1
@warm@ > /dev/null
echo 1 > $E/enable
@program@ > /dev/null || exit 1
echo 0 > $E/enable
grep -o '(FUSE_[A-Z_0-9]*)' $I/trace | sort | uniq -c
# Nothing was asked, or nothing is recorded: a name that nobody has looked up yet tells.
echo 1 > $E/enable
stat @target@/unknown-$$ 2> /dev/null
echo 0 > $E/enable
grep -q '(FUSE_LOOKUP)' $I/trace || {
    echo 'no request is recorded' >&2
    exit 1
}
