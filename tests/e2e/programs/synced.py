"""What was synced outlives the server of a mount.

synced.py write PLACE LOG SEED SERVER   writes and syncs, kills SERVER at some moment, and sees that everybody is told; LOG: what was synced until then
synced.py check PLACE LOG               looks for it
"""

import errno
import os
import random
import signal
import sys

FILES = 17


# What a call is answered whose server is killed, and the calls after it: ECANCELED by a ring, also
# while the kernel takes the ring down.
ENDS = (errno.ECONNABORTED, errno.ENOTCONN, errno.ECANCELED)


def write(place, log, seed, server):
    chance = random.Random(int(seed))
    last = chance.randrange(2 * FILES, 6 * FILES)
    os.close(os.open(f"{place}/held", os.O_CREAT))
    with open(log, "w", encoding="ascii") as said:
        try:
            for turn in range(1000):
                path = f"{place}/f{turn % FILES}"
                data = b"%d:" % turn * chance.randrange(1, 3000)
                file = os.open(f"{path}.new", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
                os.write(file, data)
                os.fsync(file)
                os.close(file)
                if turn == last:
                    os.kill(int(server), signal.SIGKILL)
                os.rename(f"{path}.new", path)
                directory = os.open(place, os.O_RDONLY)
                os.fsync(directory)
                os.close(directory)
                said.write(f"{turn % FILES} {turn} {len(data)}\n")
                said.flush()
        except OSError as error:
            assert error.errno in ENDS, error
    # Not what the kernel may still remember, nor what it does without the server.
    calls = [
        lambda: os.mkdir(f"{place}/d"),
        lambda: os.open(f"{place}/x", os.O_CREAT),
        lambda: os.unlink(f"{place}/held"),
    ]
    for call in calls:
        try:
            call()
            sys.exit("no error")
        except OSError as error:
            assert error.errno in ENDS, error
    print("told")


def check(place, log):
    synced = {}
    with open(log, encoding="ascii") as said:
        for line in said:
            name, turn, length = map(int, line.split())
            synced[name] = (turn, length)
    for name, (turn, length) in synced.items():
        with open(f"{place}/f{name}", "rb") as file:
            data = file.read()
        found = int(data.split(b":")[0])
        # What came next may have its name already.
        assert found == turn and len(data) == length or found == turn + FILES, (name, turn, found)
        assert data == b"%d:" % found * (len(data) // len(b"%d:" % found)), name
    print("there", len(synced) == FILES)


{"write": write, "check": check}[sys.argv[1]](*sys.argv[2:])
