cd $D
name=$(printf "a\nb\\\\040\" c,\303\251")
mkdir "$name"
$C mount $S "$name"
$C list --json | python3 -c "
import json, os, sys

print(
    [
        os.path.basename(one[\"target\"])
        for one in json.load(sys.stdin)
        if one[\"source\"] == os.environ[\"S\"]
    ]
)
"
$C umount "$name"
echo $?
