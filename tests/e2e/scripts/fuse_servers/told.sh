echo hello > backing
run "type=fuse,\"command=python3 @server@ $PWD/backing %m\"" '
    python3 -c "
import os
names = [os.path.exists(\"$M/told\") for _ in range(2)]
os.path.exists(\"$M/tell\")
print(*names, os.path.exists(\"$M/told\"))"
' > seen
test "$(cat seen)" = 'False False True'
