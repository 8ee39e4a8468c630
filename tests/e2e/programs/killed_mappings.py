"""Writers that store through a shared mapping are killed at random moments: what they had stored before is in the file, for the next program and, after the
run is over, in the source itself.

usage: killed_mappings.py CULVERT OPTIONS PLACE ROUNDS SEED
"""
import os
import random
import struct
import subprocess
import sys

SIZE = 1 << 18
WRITER = """
import mmap, os, struct, sys
f = os.open(sys.argv[1], os.O_RDWR)
m = mmap.mmap(f, %d)
os.close(f)
syncs = sys.argv[2] == "1"
number = 0
while True:
    number += 1
    place = number * 4099 %% (%d // 8 - 1) * 8 + 8
    m[place:place + 8] = struct.pack("Q", number)
    m[0:8] = struct.pack("Q", number)
    if syncs and number %% 64 == 0:
        m.flush()
    os.write(1, struct.pack("Q", number))
""" % (SIZE, SIZE)


def check(content, told):
    """What is wrong in the file when a writer had told of `told` stores; it may have made one more."""
    words = struct.unpack("%dQ" % (SIZE // 8), content)
    if not told <= words[0] <= told + 1:
        return "the counter is %d, not %d" % (words[0], told)
    last = {number * 4099 % (SIZE // 8 - 1) + 1: number for number in range(1, told + 1)}
    for place, number in last.items():
        if words[place] not in (number, told + 1):
            return "word %d is %d, not %d" % (place, words[place], number)
    return None


def main():
    culvert, options, place, rounds, seed = sys.argv[1:]
    source, target = place + "/source", place + "/target"
    os.mkdir(source)
    os.mkdir(target)
    chance = random.Random(int(seed))
    mount = [culvert, "run", "--no-private", "-v", "%s:%s:%s" % (source, target, options), "--"]
    for number in range(int(rounds)):
        with open(source + "/file", "wb") as file:
            file.truncate(SIZE)
        # Half of them are killed in a run that goes on, by its shell.
        goes_on = number % 2 == 1
        words = [sys.executable, "-S", "-E", "-c", WRITER, target + "/file", str(chance.randrange(2))]
        if goes_on:
            words = ["sh", "-c", '"$@" & echo $! >&2; wait; exec cat "$FILE" >&2', "sh", *words]
        writer = subprocess.Popen(mount + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE if goes_on else None,
                                  env={**os.environ, "FILE": target + "/file"})
        child = int(writer.stderr.readline()) if goes_on else writer.pid
        told, wanted = b"", chance.randrange(1, 2000) * 8
        while len(told) < wanted:
            told += os.read(writer.stdout.fileno(), 1 << 16)
        os.kill(child, 9)
        while more := os.read(writer.stdout.fileno(), 1 << 16):
            told += more
        seen = writer.stderr.read() if goes_on else None
        writer.wait()
        told = len(told) // 8
        if goes_on and (wrong := check(seen, told)):
            sys.exit("round %d, in the run: %s" % (number, wrong))
        # The next run finds what the last one left.
        subprocess.run(mount + ["true"], check=True)
        with open(source + "/file", "rb") as file:
            if wrong := check(file.read(), told):
                sys.exit("round %d, in the source: %s" % (number, wrong))


main()
