"""Starts programs by vfork after the server of its mount was killed and started again.

    spawns_again.py TARGET SOURCE

Says what a program reads that begins in the mount, and what its parent reads after it: the first
path that leads to the new server is the child's."""

import subprocess
import sys

target, source = sys.argv[1:]
AGAIN = f"""pkill -9 -f '^[a-z/]*bindfs {source} '
for i in $(seq 300); do cat {target}/file > /dev/null 2>&1 && exit; sleep .1; done
exit 1"""


def content():
    with open(target + "/file") as file:
        return file.read().strip()


before = content()
for time_of in range(3):
    subprocess.run(["sh", "-c", AGAIN], check=True)
    child = subprocess.run(["cat", "file"], cwd=target, stdout=subprocess.PIPE, check=True)
    print(before, child.stdout.decode().strip(), content(), flush=True)
