"""Load by other people's programs that check what they read; ends well when all of it was right.

loads.py NAME PLACE WORK COUNT [SEED]      NAME: fsx, stress, fio or dbench; PLACE: where its files are; WORK: a directory for what it says
loads.py KILLED KEEPER KILLS CULVERT -- NAME PLACE WORK COUNT
                                           the same again and again, while KEEPER's server is killed KILLS times
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading

# Half of it by mappings, with an msync after each mapped write or without.
FSX = """
flen = {length}
nomsyncafterwrite = {later}
[opsize]
max = {most}
min = 1
[weights]
close_open = 1
read = 10
write = 10
mapread = 15
mapwrite = 15
invalidate = 2
truncate = 8
fsync = 0.1
fdatasync = 0.1
posix_fallocate = 3
punch_hole = 3
sendfile = 3
posix_fadvise = 1
copy_file_range = 3
"""

# Those of the class "filesystem" that look at files of their own (stress-ng --class filesystem?),
# and those that move bytes to and from them. Not there: what looks at other file systems
# (bind-mount, binderfs, fanotify, procfs, ioprio, tmpfs).
QUICK = """access chmod chown copy-file dentry dir dirmany fcntl filename flock fstat getdent hdd iomix lockf lockofd mknod open rename touch utime sendfile
splice aio""".split()
MORE = """chattr dirdeep dnotify dup eventfd fiemap file-ioctl fsize handle io locka verity seek readahead revio""".split()
# Those whose single operation takes long, here and natively.
SLOW = "chdir fallocate fpunch inode-flags inotify lease link symlink sync-file xattr mmap mmapfork".split()

# fsx leaves its mappings behind: each operation takes the kernel longer than the one before, and
# some 1.7 million are too many.
PART = 10_000


def run(words, **more):
    """The program's status; what it said is shown if that is not 0."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **more)
    if done.returncode:
        print(f"{words}: {done.returncode}\n{done.stdout.decode(errors='replace')[-4000:]}")
    return done.returncode


def fsx(place, work, count, seed):
    """Two processes at once, each on a file of its own."""

    def one(name, length, later, most, seed):
        conf = f"{work}/{name}.{seed}"
        with open(conf, "w", encoding="ascii") as file:
            file.write(FSX.format(length=length, later=later, most=most))
        os.makedirs(f"{conf}.d", exist_ok=True)
        left = count
        while left > 0 and not failed:
            part = min(left, PART)
            failed.extend([1] * bool(run([os.environ["FSX"], "-f", conf, "-N", str(part), "-S", str(seed + left), "-P", f"{conf}.d", f"{place}/fsx.{name}.{seed}"])))
            left -= part
        os.unlink(f"{place}/fsx.{name}.{seed}")

    failed = []
    threads = [
        threading.Thread(target=one, args=("now", 262144, "false", 65536, seed)),
        threading.Thread(target=one, args=("later", 90000, "true", 20000, seed + 1)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return bool(failed)


def stress(place, work, count, seed):
    """One after the other; two processes each, unless the first may be done before the other has begun: some wait for each other's file."""
    processes = "2" if count >= 200 else "1"
    for name in QUICK + MORE + SLOW if count >= 200 else QUICK:
        directory = f"{place}/stress.{seed}"
        os.mkdir(directory)
        # Its limit in seconds is for those that never count to the end.
        words = ["stress-ng", f"--{name}", processes, f"--{name}-ops", str(count), "--timeout", "120", "--seed", str(seed), "--temp-path"]
        if run([*words, directory], cwd=work):
            native = f"{work}/stress.{seed}"
            os.makedirs(native)
            if not run([*words, native], cwd=work):
                return 1
            print(f"{name} fails natively, too", file=sys.stderr)
        if os.listdir(directory):
            print(f"{name} leaves {os.listdir(directory)}")
            return 1
        os.rmdir(directory)
    return 0


def fio(place, work, count, seed):
    """What was written is verified by its checksums; COUNT: KiB of each file."""
    kinds = {
        "small": "--ioengine=psync --rw=randrw --bsrange=512-64k --numjobs=2 --fsync=64",
        "mapped": "--ioengine=mmap --rw=randwrite --bs=4k --numjobs=2",
        "direct": "--ioengine=libaio --iodepth=16 --direct=1 --rw=randwrite --bs=4k",
        "appended": "--ioengine=sync --rw=write --bs=3k --end_fsync=1",
        "spliced": "--ioengine=splice --rw=write --bs=4k",
        "overwritten": "--ioengine=psync --rw=randwrite --bs=4k --overwrite=1 --verify_backlog=100",
    }
    common = f"--size={count}k --directory={place} --verify=crc32c --verify_fatal=1 --do_verify=1 --unlink=1 --randseed={seed} --output-format=terse".split()
    return any(run(["fio", f"--name={name}.{seed}", *common, *words.split()], cwd=work) for name, words in kinds.items())


def dbench(place, work, count, seed):
    """COUNT operations of a file server's clients, two at a time, as they were recorded."""
    with open("/usr/share/dbench/client.txt", encoding="ascii") as file:
        lines = [line for _, line in zip(range(count), file)]
    load = f"{work}/load.{seed}"
    with open(load, "w", encoding="ascii") as file:
        file.writelines(lines)
    directory = f"{place}/dbench.{seed}"
    os.mkdir(directory)
    # It plays the record over and over; for so long at least.
    failed = run(["dbench", "-t", "1", "-c", load, "-D", directory, "-x", "2"], cwd=work)
    subprocess.run(["rm", "-r", directory], check=True)
    return failed


def killed(keeper, kills, culvert, load, place, work, count):
    """Runs the load until its mount's server was killed so often, always after some requests more."""
    chance = random.Random(kills)
    stop = threading.Event()
    problems = []

    def mount():
        listed = subprocess.run([culvert, "list", "--json"], stdout=subprocess.PIPE, check=True).stdout
        return next(one for one in json.loads(listed) if one.get("keeper") == keeper)

    def killer():
        try:
            dead = None
            for _ in range(kills):
                one = mount()
                seen, wanted = sum(one["requests"].values()), chance.randrange(1, 300)
                while one["server"] == dead or sum(one["requests"].values()) - seen < wanted:
                    if problems:
                        return
                    one = mount()
                    seen = min(seen, sum(one["requests"].values()))
                dead = one["server"]
                os.kill(dead, signal.SIGKILL)
        except Exception as error:
            problems.append(repr(error))
        finally:
            stop.set()

    thread = threading.Thread(target=killer)
    thread.start()
    seed = 0
    while not problems and (not stop.is_set() or seed == 0):
        seed += 1
        if load(place, work, count, seed):
            problems.append(f"round {seed} failed")
    thread.join()
    print("\n".join(problems), end="")
    return bool(problems)


def main():
    loads = {"fsx": fsx, "stress": stress, "fio": fio, "dbench": dbench}
    if sys.argv[1] == "KILLED":
        keeper, kills, culvert, _, name, place, work, count = sys.argv[2:]
        failed = killed(int(keeper), int(kills), culvert, loads[name], place, work, int(count))
    else:
        name, place, work, count, *seed = sys.argv[1:]
        failed = loads[name](place, work, int(count), int(seed[0]) if seed else 1)
    if not failed:
        print("right")
    sys.exit(bool(failed))


main()
