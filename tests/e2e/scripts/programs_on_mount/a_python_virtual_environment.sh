$M/bin/python -c 'import sys, os, numpy as n; print(sys.executable, sys.prefix, n.__file__, os.readlink("/proc/self/exe")); a = n.arange(12.0).reshape(3, 4); print(a @ a.T, n.linalg.svd(a)[1].round(6))'
$M/bin/tool a b
. $M/bin/activate
type -P python3
cd /
tool
python3 -c '
import own

own.main()
import subprocess, sys

print(
    subprocess.run(
        [sys.executable, "-c", "import own; own.main()"], capture_output=True, text=True
    ).stdout
)
'
printf 'import multiprocessing as m, own\nif __name__ == "__main__":\n    for way in "fork", "spawn":\n        with m.get_context(way).Pool(2) as p:\n            print(p.map(own.fast.twice, range(5)))\n' > $W/p.py
python3 $W/p.py
