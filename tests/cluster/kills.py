#!/usr/bin/env python3
"""Independent appenders on all nodes of tests/cluster/run, of which writers, services and whole
nodes are killed at any moment. Nothing that a write had answered is lost, nothing is there twice,
and of each writer the order is kept. The same of small files, of which each writer makes, writes,
cuts, renames and removes its own in one directory.

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
# Of small files: each line that is printed is a step that was answered. What the steps are is the same
# wherever they are asked for.
STEPS = """
import random
def steps(name, seed):
    r, own, count = random.Random(seed), [], 0
    while True:
        what = r.choice(["make", "make", "append", "append", "over", "cut", "move", "remove"])
        if what == "make" or not own:
            count += 1
            own.append(f"{name}.{count}")
            yield "make", own[-1], f"<{name} {count}>".encode() * r.randrange(1, 200)
            continue
        one = r.choice(own)
        if what == "move":
            own.remove(one)
            # Over one that is there, now and then.
            to = r.choice(own) if own and r.randrange(3) == 0 else f"{one}x"
            own = [other for other in own if other != to] + [to]
            yield what, one, to
        elif what == "remove":
            own.remove(one)
            yield what, one, None
        elif what == "cut":
            yield what, one, r.randrange(3000)
        else:
            yield what, one, bytes([r.randrange(65, 91)]) * r.randrange(1, 5000)
"""
SMALL = STEPS + """
import os, sys
place, name, seed = sys.argv[1:]
os.chdir(place)
for count, (what, one, with_) in enumerate(steps(name, int(seed))):
    if what == "make" or what in ("append", "over"):
        flags = {"make": os.O_CREAT | os.O_EXCL, "append": os.O_APPEND, "over": 0}[what]
        fd = os.open(one, os.O_WRONLY | flags, 0o644)
        assert os.write(fd, with_) == len(with_)
        if count % 3 == 0:
            os.fsync(fd)
        os.close(fd)
    elif what == "cut":
        os.truncate(one, with_)
    elif what == "move":
        os.rename(one, with_)
    else:
        os.unlink(one)
    os.write(1, b"%d\\n" % count)
"""
LOOK = """
import os, sys
os.chdir(sys.argv[1])
for one in sorted(os.listdir(".")):
    data = open(one, "rb").read()
    assert os.stat(one).st_size == len(data), one
    sys.stdout.buffer.write(b"%s %d\\n%s" % (one.encode(), len(data), data))
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
made = {}
exec(STEPS, made)
make_steps = made["steps"]
killed = {"writers": 0, "services": 0, "nodes": 0}


def within(node):
    return ["nsenter", "-t", str(holders[node]), "-n", "-m", "-u", "--"]


def run(node, option=option):
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


def after(steps, count):
    """The files after `count` steps, and after the one that was under way too, whole or, where it was
    two system calls, by half."""
    files = {}
    for at, (what, one, how) in enumerate(steps):
        if at == count:
            yield dict(files)
            if what == "make":
                yield {**files, one: b""}
        if what in ("make", "append"):
            files[one] = files.get(one, b"") + how
        elif what == "over":
            files[one] = how + files[one][len(how) :]
        elif what == "cut":
            files[one] = files[one][:how].ljust(how, b"\0")
        elif what == "move":
            files[how] = files.pop(one)
        else:
            del files[one]
        if at == count:
            yield files
            return


def small(rounds):
    """Each writer's own small files, in a directory of all, which are what its steps made of them."""
    option = f"type=plfs,source={backend}/packed,target={mount},workload=small_file"
    subprocess.run(within(1) + ["mkdir", f"{backend}/packed"], check=True)
    ended, found = {}, {}
    for turn in range(rounds):
        writers, lines = {}, {}
        for node in holders:
            for number in range(2):
                name, seed = f"{turn}-{node}-{number}", chance.randrange(1 << 30)
                words = [sys.executable, "-c", SMALL, mount, name, str(seed)]
                writer = subprocess.Popen(run(node, option) + words, stdout=subprocess.PIPE)
                writers[node, number, name, seed] = writer
        for key, writer in writers.items():
            lines[key] = chance.randrange(1, 40)
            for _ in range(lines[key]):
                assert writer.stdout.readline(), "the writer ended by itself"
        for key in chance.sample(sorted(writers), len(writers)):
            node, _, name, seed = key
            if chance.randrange(4) == 0 and node > 1:
                end_node(node)
                services[node].wait()
                services[node] = serve(node)
                killed["nodes"] += 1
            writers[key].send_signal(signal.SIGKILL)
            killed["writers"] += 1
            ended[name] = seed, lines[key] + writers[key].stdout.read().count(b"\n")
            writers[key].wait()
        node = chance.choice(sorted(holders))
        words = [sys.executable, "-c", LOOK, mount]
        said = subprocess.run(run(node, option) + words, stdout=subprocess.PIPE, check=True).stdout
        found, at = {}, 0
        while at < len(said):
            line = said.index(b"\n", at)
            name, length = said[at:line].decode().split()
            at = line + 1 + int(length)
            found.setdefault(name.split(".")[0], {})[name] = said[line + 1 : at]
        for name, (seed, count) in ended.items():
            have = found.get(name, {})
            right = any(have == want for want in after(make_steps(name, seed), count))
            sizes = {one: len(data) for one, data in have.items()}
            assert right, f"small files, turn {turn}: {name}, {count} steps of seed {seed}: {sizes}"
    print(sum(map(len, found.values())), "small files of", len(ended), "writers")
    subprocess.run(within(1) + ["rm", "-r", f"{backend}/packed"], check=True)


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
small(max(rounds // 3, 1))
for service in services.values():
    end(service)
print(", ".join(f"{count} {what}" for what, count in killed.items()), "killed: nothing lost")
