#!/usr/bin/env python3
"""Independent runs that append to one file on a plfs mount with a synchronisation service; writers and
the service are killed at any moment. Nothing that a write had answered is lost, nothing is there
twice, and of each writer the order is kept.

plfs_appenders.py CULVERT BACKEND MOUNT ROUNDS SEED
"""
import os
import random
import re
import signal
import subprocess
import sys

WRITER = """
import os, random, sys
name, seed = sys.argv[2], int(sys.argv[3])
r = random.Random(seed)
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
for step in range(100000):
    record = b"<%s %d " % (name.encode(), step) + b"x" * r.randrange(3000) + b">"
    assert os.write(fd, record) == len(record)
    os.write(1, b"%d\\n" % step)
"""

culvert, backend, mount = sys.argv[1:4]
rounds, seed = int(sys.argv[4]), int(sys.argv[5])
chance = random.Random(seed)
socket = backend + ".sync"
option = f"type=plfs,source={backend},target={mount},sync={socket}"
run = [culvert, "run", "--mount", option, "--"]


def serve():
    service = subprocess.Popen([culvert, "sync", "--socket", socket], stderr=subprocess.PIPE)
    assert b"serving" in service.stderr.readline()
    return service


service = serve()
answered = {}
for turn in range(rounds):
    writers = {}
    for at in range(3):
        name = f"{turn}.{at}"
        words = [sys.executable, "-c", WRITER, mount + "/f", name, str(chance.randrange(1 << 30))]
        writers[name] = subprocess.Popen(run + words, stdout=subprocess.PIPE)
    victim = chance.randrange(4)
    for at, (name, writer) in enumerate(writers.items()):
        lines = chance.randrange(1, 40)
        for _ in range(lines):
            assert writer.stdout.readline(), "the writer ended by itself"
        if at == victim:
            service.send_signal(signal.SIGKILL)
            service.wait()
            service = serve()
        writer.send_signal(signal.SIGKILL)
        answered[name] = lines + writer.stdout.read().count(b"\n")
        writer.wait()
    found = subprocess.run(run + ["cat", mount + "/f"], stdout=subprocess.PIPE, check=True).stdout
    steps = {}
    # Between records: positions of those who were killed before they wrote.
    assert re.fullmatch(rb"(\0*<[0-9.]+ \d+ x*>)*\0*", found), f"turn {turn}: torn records"
    for record in re.finditer(rb"<([0-9.]+) (\d+) x*>", found):
        steps.setdefault(record[1].decode(), []).append(int(record[2]))
    for name, count in answered.items():
        have = steps.get(name, [])
        # The one that was under way is there, or it is not.
        assert have in (list(range(count)), list(range(count + 1))), f"turn {turn}: {name}: {have}"
    size = subprocess.run(run + ["stat", "-c", "%s", mount + "/f"], stdout=subprocess.PIPE, check=True)
    assert int(size.stdout) == len(found), f"turn {turn}: {size.stdout} is not {len(found)}"
service.send_signal(signal.SIGKILL)
service.wait()
print("nothing lost")
