#!/usr/bin/env python3
"""Independent appenders on all nodes of tests/cluster/run, of which writers, services and whole
nodes are killed at any moment. Nothing that a write had answered is lost, nothing is there twice,
and of each writer the order is kept.

kills.py CULVERT PLACE BACKEND MOUNT NODES ROUNDS SEED [MOUNTING...]

MOUNTING mounts the back end at BACKEND in a node whose processes were killed.
"""
import os
import pathlib
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
# Rounds that write into one file.
TOGETHER = 8

culvert, place, backend, mount = sys.argv[1:5]
nodes, rounds, seed = map(int, sys.argv[5:8])
mounting = sys.argv[8:]
place = pathlib.Path(place)
chance = random.Random(seed)
holders = {node: int((place / f"holder.{node}").read_text()) for node in range(1, nodes + 1)}
option = f"type=plfs,source={backend},target={mount},sync=hosts"
killed = {"writers": 0, "services": 0, "nodes": 0}


def within(node):
    return ["nsenter", "-t", str(holders[node]), "-n", "-m", "-u", "--"]


def run(node):
    return within(node) + [culvert, "run", "--no-private", "--mount", option, "--"]


def serve(node):
    words = [culvert, "sync", "--socket", str(place / f"killed.{node}"), "--hosts", backend]
    words += ["--listen", f"10.99.0.{node}:4712"]
    told = open(place / f"told-kills.{node}", "ab")
    return subprocess.Popen(within(node) + words, stderr=told)


def end(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def network(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def end_node(node):
    """Kills all that the node has, but what holds its namespaces."""
    own = network(holders[node])
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) != holders[node] and network(pid) == own:
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
    if mounting:
        subprocess.run(within(node) + ["umount", "-l", backend], check=True)
        subprocess.run(within(node) + mounting, check=True)


def output(node, *words):
    return subprocess.run(run(node) + list(words), stdout=subprocess.PIPE, check=True).stdout


services = {node: serve(node) for node in holders}
answered, name = {}, None
for turn in range(rounds):
    if turn % TOGETHER == 0:
        answered, name = {}, f"{mount}/killed.{turn}"
    writers = {}
    for node in holders:
        words = [sys.executable, "-c", WRITER, name, f"{turn}.{node}"]
        words.append(str(chance.randrange(1 << 30)))
        writers[node] = subprocess.Popen(run(node) + words, stdout=subprocess.PIPE)
    lines = dict.fromkeys(writers, 0)
    for node, writer in writers.items():
        for _ in range(chance.randrange(1, 30)):
            assert writer.stdout.readline(), "the writer ended by itself"
            lines[node] += 1
    for node in chance.sample(sorted(writers), nodes):
        # The node that the volume's servers are on stays.
        what = chance.choice(["writer", "writer", "service", "node" if node > 1 else "service"])
        if what == "service":
            end(services[node])
            services[node] = serve(node)
            killed["services"] += 1
        if what == "node":
            end_node(node)
            services[node].wait()
            services[node] = serve(node)
            killed["nodes"] += 1
        writers[node].send_signal(signal.SIGKILL)
        killed["writers"] += 1
        answered[f"{turn}.{node}"] = lines[node] + writers[node].stdout.read().count(b"\n")
        writers[node].wait()
    node = chance.choice(sorted(holders))
    found = output(node, "cat", name)
    # Between records: positions of those who were killed before they wrote.
    assert re.fullmatch(rb"(\0*<[0-9.]+ \d+ x*>)*\0*", found), f"turn {turn}: torn records"
    steps = {}
    for record in re.finditer(rb"<([0-9.]+) (\d+) x*>", found):
        steps.setdefault(record[1].decode(), []).append(int(record[2]))
    for writer, count in answered.items():
        have = steps.get(writer, [])
        # The one that was under way is there, or it is not.
        right = have in (list(range(count)), list(range(count + 1)))
        assert right, f"turn {turn}: {writer}: {have}, {count}"
    size = output(chance.choice(sorted(holders)), "stat", "-c", "%s", name)
    assert int(size) == len(found), f"turn {turn}: {size} is not {len(found)}"
    if os.environ.get("VERBOSE"):
        print(f"turn {turn}: {len(found)} bytes", file=sys.stderr)
for service in services.values():
    end(service)
print(", ".join(f"{count} {what}" for what, count in killed.items()), "killed: nothing lost")
