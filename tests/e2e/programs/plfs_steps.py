#!/usr/bin/env python3
"""Kills a writer of a plfs mount, or its synchronisation service, before each of its system calls in
turn: nothing that a write had answered is lost, and nothing is there twice.

plfs_steps.py CULVERT PLACE writer|service append|beside EVERY

Of the steps each EVERYth is taken: 1 for all. Wants strace and cc.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

culvert, place, victim, how, every = sys.argv[1:5] + [int(sys.argv[5])]
place = pathlib.Path(place)
back, mount, socket = place / "back", place / "mnt", place / "sync"
# With "beside" more than the writes after which a service is asked to hold the file.
COUNT = 4 if how == "append" else 20
option = f"type=plfs,source={back},target={mount},sync={socket}"
run = [culvert, "run", "--mount", option, "--"]
program = place / "steps"
subprocess.run(["cc", "-O1", "-o", program, pathlib.Path(__file__).with_suffix(".c")], check=True)


def traced(words, *options):
    return ["strace", "-f", "-qq", "-o", place / "trace", *options, *words]


def writer(name, options=None):
    words = run + [program, mount / "f", name, str(COUNT)] + ([] if how == "append" else ["at"])
    words = words if options is None else traced(words, *options)
    done = subprocess.run(words, stdout=subprocess.PIPE)
    return done.stdout.count(b"\n"), done.returncode


def serve(options=None):
    words = [culvert, "sync", "--socket", socket, "--workers", "1"]
    words = words if options is None else traced(words, *options)
    # A group of its own: strace and what it runs are ended together.
    service = subprocess.Popen(words, stderr=subprocess.PIPE, start_new_session=True)
    for line in service.stderr:
        if b"serving" in line:
            break
    return service


def end(service):
    try:
        os.killpg(service.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    service.wait()
    service.stderr.close()


def calls():
    """The system calls of the last trace, each as its name, with how often its thread had made it."""
    counts, all_calls = {}, []
    for line in (place / "trace").read_text(errors="replace").splitlines():
        call = re.match(r"(\d+) +(\w+)\(", line)
        if not call or "resumed>" in line:
            continue
        counts[call[1], call[2]] = counts.get((call[1], call[2]), 0) + 1
        all_calls.append((call[2], counts[call[1], call[2]], line))
    return all_calls


def once(options):
    """One round: what was answered, and how many the killed writer had told of."""
    shutil.rmtree(back, ignore_errors=True)
    back.mkdir()
    mount.mkdir(exist_ok=True)
    service = serve(options if victim == "service" else None)
    first, _ = writer("first", options if victim == "writer" else None)
    if victim == "service":
        # A successor, if it was killed.
        if service.poll() is not None:
            end(service)
            service = serve()
        assert first == COUNT, f"the writer failed when the service was killed: {first}"
    found = subprocess.run(run + ["cat", mount / "f"], stdout=subprocess.PIPE).stdout
    second = writer("second")[0] if how == "append" else 0
    end(service)
    return first, second, found


def check(step, first, second, found):
    now = subprocess.run(run + ["cat", mount / "f"], stdout=subprocess.PIPE).stdout
    for content in (found, now):
        assert re.fullmatch(rb"(\0*<\w+ \d+ x*>)*\0*", content), f"{step}: torn records"
    have = [int(one[1]) for one in re.finditer(rb"<first (\d+) x*>", found)]
    # The one that was under way is there, or it is not.
    assert have in (list(range(first)), list(range(first + 1))), f"{step}: {first} told, {have}"
    after = re.findall(rb"<(\w+) (\d+) x*>", now)
    want = [(b"first", b"%d" % one) for one in have] + [(b"second", b"%d" % one) for one in range(second)]
    assert after == want and second in (0, COUNT), f"{step}: {after}"
    size = subprocess.run(run + ["stat", "-c", "%s", mount / "f"], stdout=subprocess.PIPE)
    assert not now or int(size.stdout) == len(now), f"{step}: {size.stdout}"


once([])
steps = calls()
if victim == "writer":
    begins = next(at for at, (_, _, line) in enumerate(steps) if "/f" in line and "execve" not in line)
    begins = next((at for at, (name, _, line) in enumerate(steps) if name == "mkdirat"), begins)
    steps = steps[begins:]
taken = 0
for name, number, line in steps[::every]:
    if name in ("exit", "exit_group", "execve"):
        continue
    check(line, *once([f"-einject={name}:signal=SIGKILL:when={number}"]))
    taken += 1
assert taken > 10, taken
print("nothing lost", file=sys.stdout)
print(f"{taken} steps", file=sys.stderr)
