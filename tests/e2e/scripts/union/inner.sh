set -e
cd @place@
export culvert=@culvert@
unshare -m --propagation private sh -ec '
    mkdir -p a/in b m
    mount -t tmpfs none a/in
    mkdir -p a/in/d/e
    echo text > a/in/d/e/f
    $culvert run --no-private -v $PWD/a:$PWD/b:$PWD/m:type=union -- python3 -c "
import os
there = os.path.exists(\"m/in/d/e/f\") and os.listdir(\"m/in/d\") == [\"e\"]
print(there, os.system(\"umount a/in\"))"
'
