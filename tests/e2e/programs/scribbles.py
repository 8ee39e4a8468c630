"""Writes anything into the memory that the programs of a FUSE server's mount share: DIRECTORY of the
mount, SEED, how often. A process of the same user may do so; others get errors for it."""

import mmap
import os
import random
import re
import sys

target, seed, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
try:
    os.stat(target)
except OSError:
    pass
maps = [re.search(r"(/\S*/area)$", line) for line in open("/proc/self/maps")]
areas = [found.group(1) for found in maps if found]
if not areas:
    # What was written before is enough to keep everybody out.
    print("scribbled")
    sys.exit()
area = areas[0]
numbers = random.Random(seed)
file = open(area, "r+b")
words = mmap.mmap(file.fileno(), 0)
PAGE, SLOTS, SHARED = 4096, 4096 + 64 * 16, 4096 + 64 * 128
# What says that the server has ended would be the end of all.
SESSION = 32

for _ in range(times):
    kind = numbers.randrange(6)
    if kind < 3:
        at = numbers.randrange(0, SLOTS, 8)
    elif kind < 5:
        at = numbers.randrange(SHARED, SHARED + (1 << 21), 8)
    else:
        at = numbers.randrange(0, len(words) - 8, 8)
        if words[at : at + 8] == bytes(8):
            continue
    if at == SESSION:
        continue
    value = numbers.choice([0, (1 << 64) - 1, numbers.randrange(64), numbers.randrange(1 << 64)])
    words[at : at + 8] = value.to_bytes(8, "little")
print("scribbled")
