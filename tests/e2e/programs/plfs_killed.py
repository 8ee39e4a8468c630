#!/usr/bin/env python3
"""Writers of one file on a plfs mount that are killed at any moment: nothing that a write had
answered is lost.

plfs_killed.py CULVERT BACKEND MOUNT ROUNDS SEED
"""
import os
import random
import signal
import subprocess
import sys

WRITER = """
import os, random, sys
seed = int(sys.argv[2])
r = random.Random(seed)
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
for step in range(100000):
    at, length = r.randrange(50000), r.randrange(1, 3000)
    os.pwrite(fd, bytes([33 + (seed + step) % 90]) * length, at)
    os.write(1, b"%d\\n" % step)
"""

culvert, backend, mount = sys.argv[1:4]
rounds, seed = int(sys.argv[4]), int(sys.argv[5])
chance = random.Random(seed)
run = [culvert, "run", "--mount", f"type=plfs,source={backend},target={mount}", "--"]
model = bytearray()


def laid(content, at, piece):
    content = content + bytes(max(0, at + len(piece) - len(content)))
    return content[:at] + piece + content[at + len(piece):]


for turn in range(rounds):
    own = seed * 1000 + turn
    writer = subprocess.Popen(run + [sys.executable, "-c", WRITER, mount + "/f", str(own)],
                              stdout=subprocess.PIPE)
    lines = chance.randrange(1, 60)
    for _ in range(lines):
        assert writer.stdout.readline(), "the writer ended by itself"
    writer.send_signal(signal.SIGKILL)
    answered = lines + writer.stdout.read().count(b"\n")
    writer.wait()
    r = random.Random(own)
    # The one that was under way is there, or it is not.
    for step in range(answered + 1):
        at, length = r.randrange(50000), r.randrange(1, 3000)
        before = model
        model = laid(bytes(model), at, bytes([33 + (own + step) % 90]) * length)
    found = subprocess.run(run + ["cat", mount + "/f"], stdout=subprocess.PIPE, check=True).stdout
    assert found in (before, model), f"turn {turn}: {len(found)} bytes, {len(before)} answered"
    size = subprocess.run(run + ["stat", "-c", "%s", mount + "/f"], stdout=subprocess.PIPE, check=True)
    assert int(size.stdout) == len(found), f"turn {turn}: {size.stdout} is not {len(found)}"
    model = found
print("nothing lost")
