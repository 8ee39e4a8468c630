"""Kills workers of durability.c at random operations, again and again, and compares what is there with what they said.

    durability.py run CULVERT WORKER KIND PLACE OPERATIONS SEED    KIND: native, passthrough, driven, memory
    durability.py dump DIRECTORY                                   all that is in it, as JSON
    durability.py empty DIRECTORY                                  removes all that is in it

A worker's finished operations are repeated in a native directory, and must have had the same results there; then both trees must be
equal. Of the operation that was under way when the worker was killed, all or nothing is there, of a write perhaps the first part, as natively.
"""

import fcntl
import hashlib
import json
import os
import random
import selectors
import shutil
import signal
import subprocess
import sys

WORKERS = 3
LONGEST = 16384


def make_table():
    table, x = bytearray(), 12345
    for _ in range(1 << 16):
        x = (x * 1103515245 + 12345) & 0xFFFFFFFF
        table.append(x >> 16 & 255)
    return bytes(table)


TABLE = make_table()


def entry(path, inodes):
    status = os.lstat(path)
    found = {"mode": status.st_mode, "links": status.st_nlink}
    if os.path.islink(path):
        found["leads to"] = os.readlink(path)
    elif os.path.isfile(path):
        with open(path, "rb") as file:
            content = file.read()
        if len(content) != status.st_size:
            raise SystemExit(f"{path}: {len(content)} bytes can be read, the size is {status.st_size}")
        found["size"] = status.st_size
        found["content"] = hashlib.sha256(content).hexdigest()
        found["same as"] = inodes.setdefault((status.st_dev, status.st_ino), path)
    return found


def dump(directory):
    os.chdir(directory)
    found, inodes, waiting = {}, {}, ["."]
    while waiting:
        within = waiting.pop()
        names = os.listdir(within)
        if len(names) != len(set(names)):
            raise SystemExit(f"{within}: a name is listed twice: {sorted(names)}")
        for name in sorted(names):
            path = os.path.join(within, name)
            found[path] = entry(path, inodes)
            if os.path.isdir(path) and not os.path.islink(path):
                waiting.append(path)
    return found


def write(path, flags, offset, data):
    descriptor = os.open(path, os.O_WRONLY | flags, 0o644)
    try:
        return os.write(descriptor, data) if flags & os.O_APPEND else os.pwrite(descriptor, data, offset)
    finally:
        os.close(descriptor)


def exchange(a, b, new):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, a.encode(), -100, b.encode(), 1 if new else 2) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def apply(words):
    """Does one operation in the working directory; 0 or -errno."""
    kind, *rest = words
    try:
        if kind == "create":
            os.close(os.open(rest[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        elif kind in ("write", "sync"):
            offset, length, start = map(int, rest[1:])
            write(rest[0], os.O_CREAT if kind == "sync" else 0, offset, TABLE[start : start + length])
        elif kind == "append":
            length, start = map(int, rest[1:])
            write(rest[0], os.O_APPEND, 0, TABLE[start : start + length])
        elif kind == "truncate":
            os.truncate(rest[0], int(rest[1]))
        elif kind in ("renamenew", "exchange"):
            exchange(rest[0], rest[1], kind == "renamenew")
        elif kind == "mkdir":
            os.mkdir(rest[0], 0o755)
        else:
            {"rename": os.rename, "link": os.link, "symlink": os.symlink, "unlink": os.unlink, "rmdir": os.rmdir}[kind](*rest)
    except OSError as error:
        return -error.errno
    return 0


class Worker:
    """What one worker has said."""

    def __init__(self, number, pipe):
        self.number, self.pipe, self.buffer = number, pipe, b""
        self.pid, self.begun, self.done, self.synced = None, {}, {}, 0

    def read(self):
        """Takes what the pipe has; False at its end."""
        more = os.read(self.pipe, 1 << 16)
        *lines, self.buffer = (self.buffer + more).split(b"\n")
        for line in lines:
            mark, number, *words = line.decode().split(" ")
            if mark == "pid":
                self.pid = int(number)
            elif mark == ">":
                self.begun[int(number)] = words
            else:
                self.done[int(number)] = int(words[0])
                self.synced += self.begun[int(number)][0] == "sync" and words[0] == "0"
        return bool(more)


class Trial:
    def __init__(self, culvert, worker, kind, place, seed):
        self.culvert, self.program, self.kind, self.random = culvert, worker, kind, random.Random(seed)
        self.place = place
        self.mirror, self.source, self.target = (os.path.join(place, name) for name in ("mirror", "source", "target"))
        for directory in (self.mirror, self.source, self.target):
            os.makedirs(directory)
        self.name = f"durability-{os.getpid()}"
        self.operations = self.kills = self.synced = self.torn = 0

    def mounts(self):
        """Words before a command that works on the mount, and the directory."""
        volume = f"{self.source}:{self.target}"
        run = [self.culvert, "run", "--no-private"]
        return {
            "native": ([], self.source),
            "passthrough": ([*run, "-v", volume, "--"], self.target),
            "driven": ([*run, "-v", volume + ":driven", "--"], self.target),
            "memory": ([*run, "--mount", f"type=memory,source=memory:{self.name},target={self.target}", "--"], self.target),
        }[self.kind]

    def call(self, *words):
        before, directory = self.mounts()
        done = subprocess.run([*before, *words, directory], capture_output=True, timeout=50)
        if done.returncode != 0:
            raise SystemExit(f"{words}: status {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}")
        return done.stdout

    def round(self):
        """Lets the workers run until one kill, then looks."""
        count = self.random.randint(20, 400)
        everybody = self.random.random() < 0.6
        victim, after = self.random.randrange(WORKERS), self.random.randint(1, count)
        workers, ends = [], []
        for number in range(WORKERS):
            reader, writer = os.pipe()
            # A worker is never far ahead of what was read.
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            workers.append(Worker(number, reader))
            ends.append(writer)
        before, directory = self.mounts()
        words = [*before, self.program, "work", str(self.random.getrandbits(40)), str(count), directory, *map(str, ends)]
        process = subprocess.Popen(words, pass_fds=ends, start_new_session=True, stderr=subprocess.PIPE)
        for end in ends:
            os.close(end)
        killed = False
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(worker.pipe, selectors.EVENT_READ, worker)
            while selector.get_map():
                ready = selector.select(timeout=50)
                if not ready:
                    os.killpg(process.pid, signal.SIGKILL)
                    raise SystemExit("the workers do not go on after one was killed" if killed else "the workers do not go on")
                for key, _ in ready:
                    if not key.data.read():
                        selector.unregister(key.fd)
                        os.close(key.fd)
                if not killed and len(workers[victim].begun) >= after and all(worker.pid for worker in workers):
                    killed = self.kill(process.pid if everybody else None, workers[victim].pid)
        errors = process.stderr.read()
        process.wait()
        if errors:
            raise SystemExit(f"the workers said: {errors.decode()}")
        self.kills += killed
        self.look(workers)

    @staticmethod
    def kill(group, worker):
        """Kills a whole group or one worker, if that has not ended."""
        try:
            os.killpg(group, signal.SIGKILL) if group else os.kill(worker, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def look(self, workers):
        """Repeats what was done and compares."""
        found = self.trees()
        for worker in workers:
            self.operations += len(worker.done)
            self.synced += worker.synced
            own = os.path.join(self.mirror, f"w{worker.number}")
            os.makedirs(own, exist_ok=True)
            os.chdir(own)
            under_way = None
            for number, words in worker.begun.items():
                if number not in worker.done:
                    under_way = words
                    continue
                result = apply(words)
                if result != worker.done[number]:
                    earlier = "\n".join(" ".join(worker.begun[n]) + f": {worker.done[n]}" for n in range(max(0, number - 10), number))
                    raise SystemExit(
                        f"worker {worker.number} after {self.kills} kills, operation {number}: {' '.join(words)}: "
                        f"{worker.done[number]}, natively {result}; before that\n{earlier}"
                    )
            os.chdir("/")
            self.agree(worker.number, under_way, found)

    def trees(self):
        """What is there: through culvert, and in the directory behind it; each must be the same."""
        found = json.loads(self.call(sys.executable, __file__, "dump"))
        if self.kind in ("passthrough", "driven"):
            behind = json.loads(json.dumps(in_child(self.source)))
            differ(found, behind, "through the mount and in its source")
        return found

    def agree(self, number, under_way, found):
        own = os.path.join(self.mirror, f"w{number}")
        prefix = f"./w{number}"
        there = {path: what for path, what in found.items() if path == prefix or path.startswith(prefix + "/")}

        def mirrored():
            all_of_it = in_child(self.mirror)
            return {path: what for path, what in all_of_it.items() if path == prefix or path.startswith(prefix + "/")}

        before = mirrored()
        if not there and not any(path != prefix for path in before):
            # Killed before it made its directory.
            os.rmdir(own)
            return
        if under_way is None or there == before:
            differ(there, before, f"worker {number}, nothing under way" if under_way is None else "")
            return
        kept = own + ".before"
        subprocess.run(["cp", "-a", own, kept], check=True)
        os.chdir(own)
        apply(under_way)
        os.chdir("/")
        after = mirrored()
        if there == after:
            shutil.rmtree(kept)
            return
        # Only a write may be there in part.
        if under_way[0] not in ("write", "append", "sync"):
            differ(there, after, f"worker {number}, under way: {' '.join(under_way)}")
        self.tear(number, under_way, kept)
        differ(there, mirrored(), f"worker {number}, under way: {' '.join(under_way)}")
        shutil.rmtree(kept)

    def tear(self, number, words, kept):
        """Gives the mirror's file the content that is there, if that is what a part of the write makes of it."""
        name = f"w{number}/{words[1]}"
        before, directory = self.mounts()
        there = subprocess.run([*before, "cat", f"{directory}/{name}"], capture_output=True, check=True).stdout
        try:
            with open(os.path.join(kept, words[1]), "rb") as file:
                old = file.read()
        except FileNotFoundError:
            old = b""
        offset = len(old) if words[0] == "append" else int(words[2])
        length, start = map(int, words[-2:])
        data = TABLE[start : start + length]
        for part in range(length):
            end = offset + part
            new = old if part == 0 else old[:offset].ljust(offset, b"\0") + data[:part] + old[end:]
            if new == there:
                break
        else:
            raise SystemExit(f"{name}: neither old nor new nor a part of: {' '.join(words)}")
        with open(os.path.join(self.mirror, name), "wb") as file:
            file.write(there)
        self.torn += 1


def in_child(directory):
    here = os.getcwd()
    try:
        return dump(directory)
    finally:
        os.chdir(here)


def differ(left, right, what):
    lines = [f"{path}: {left.get(path)}, expected {right.get(path)}" for path in sorted({*left, *right}) if left.get(path) != right.get(path)]
    if lines:
        raise SystemExit("\n".join([f"trees differ: {what}", *lines[:20]]))


def run(culvert, worker, kind, place, operations, seed):
    trial = Trial(culvert, worker, kind, os.path.realpath(place), int(seed))
    while trial.operations < int(operations):
        trial.round()
    trial.call(sys.executable, __file__, "empty")
    if trial.trees():
        raise SystemExit("something is left that cannot be removed")
    print(f"{trial.operations} operations, {trial.synced} fsynced writes, {trial.kills} kills, {trial.torn} writes in part")
    if trial.kills * 3000 < trial.operations or trial.synced * 20 < trial.operations:
        raise SystemExit("too few kills or fsyncs to mean anything")


def empty(directory):
    for name in os.listdir(directory):
        shutil.rmtree(os.path.join(directory, name))


if __name__ == "__main__":
    verb, *words = sys.argv[1:]
    if verb == "run":
        run(*words)
    elif verb == "dump":
        print(json.dumps(dump(*words)))
    else:
        empty(*words)
