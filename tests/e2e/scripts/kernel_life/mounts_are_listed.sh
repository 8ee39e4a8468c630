echo x > $S/f
$C mount --restart $S $T
cat $T/f > /dev/null
exec 5< $T/f
$C list --json | python3 -c "
import json, os, sys

(one,) = [one for one in json.load(sys.stdin) if one[\"target\"] == os.environ[\"T\"]]
print(
    one[\"type\"],
    one[\"source\"] == os.environ[\"S\"],
    one[\"files\"],
    one[\"restarts\"],
    one[\"requests\"][\"Open\"] > 0,
    os.path.exists(\"/proc/%d\" % one[\"server\"]),
    one[\"memory\"] < 10 << 20,
)
"
$C list | grep -c "$S on $T type passthrough"
$C umount $T 2>&1 | grep -o "is used by bash"
exec 5<&-
$C umount --all
$C list | grep -c $T
