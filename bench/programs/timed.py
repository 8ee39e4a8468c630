"""Makes bench/results/extensions-timed.md of what bench/programs/timed.sh says in a guest.

    timed.py FOLDER KERNEL OBJECTS SOURCES      FOLDER: of a file for each row
"""

import pathlib
import statistics
import sys

folder, kernel, objects, sources = sys.argv[1:]
runs, dates, quick = {}, set(), []
for file in sorted(pathlib.Path(folder).iterdir()):
    for line in file.read_text().splitlines():
        parts = line.split("|")
        if parts[0] == "date":
            dates.add(parts[1])
            quick += [file.name] if parts[2] != "release" else []
        if len(parts) == 5:
            run = [float(part) for part in parts[2:]]
            runs.setdefault(parts[0], {}).setdefault(parts[1], []).append(run)
# What of each is in the middle: seconds, requests, and those for xattrs.
rows = {
    what: {mount: [statistics.median(one) for one in zip(*of)] for mount, of in mounts.items()}
    for what, mounts in runs.items()
}


def table(title, *columns):
    print(f"\n## {title}\n\n| {' | '.join(columns)} |")
    print("|---|---|" + "---:|" * (len(columns) - 2))


def beside(what, name, base, papers):
    """Rows of one workload: seconds of each mount, and how often those of `base`."""
    of = rows[what]
    for (mount, (seconds, requests, _)), paper in zip(of.items(), papers):
        ratio = f"{seconds / of[base][0]:.2f}"
        print(f"| {name} | {mount} | {seconds:.2f} | {ratio} | {paper} | {requests:.0f} |")


print("# Programs on mounts with extensions, timed in a guest")
print(
    f"\nMeasured on {' and '.join(sorted(dates))} inside a guest with Debian's kernel {kernel}, one processor. "
    "Seconds are the guest's, which counts an instruction as a nanosecond (qemu's `-icount`): the same "
    "whatever else the machine does, and without what caches, disks and a change of the processor's "
    "mode cost. So they are for information; the requests are what counts. The source of each mount is "
    "on the same ext4, on a disk in memory; each run begins with nothing in the kernel's caches. `Opt`, "
    "`MDOpt`, `AllOpt`: as in [extensions](extensions.md)."
    + (f" With a server of little optimisation: {', '.join(quick)}." if quick else "")
)
if "untar" in rows:
    table("Untar and a build", "what", "mount", "s", "of ext4's", "the paper's", "requests")
    beside("untar", "untar", "ext4", [1, 2.1, 2.0, 1.65])
    if "build" in rows:
        beside("build", "build", "ext4", [1, 1.29, 1.22, 1.09])
    part = f" `build`: `make {objects}` of a tinyconfig, once." if "build" in rows else ""
    print(
        f"\n`untar`: `kernel`, `lib` and `mm` of Linux ({sources}), the median of three runs that take "
        f"turns.{part} The paper unpacked a whole kernel, and built its tinyconfig."
    )
if "archive 25" in rows:
    table("An archive on sdcard", "what", "mount", "s", "of Opt's", "the paper's", "requests")
    for size, paper in (25, 0.79), (75, 0.51):
        beside(f"archive {size}", f"{size} MB", "Opt", ["", 1, "", paper])
    print(
        "\nAs a game starts: the list at the archive's end, then 400 or 1,200 members of 4 to 60 KiB in "
        "no order. The paper's games had 374 MB and 1.1 GB, and did more than to read; its figures are of "
        "`AllOpt` beside what Android had."
    )
if "logged" in rows:
    table("LoggedFS", "what", "mount", "s", "throughput of Opt's", "the paper's", "requests")
    of = rows["logged"]
    for mount, paper in ("ext4", ""), ("Opt", 1), ("MDOpt", 1.09), ("AllOpt", 1.20):
        seconds, requests, _ = of[mount]
        ratio = of["Opt"][0] / seconds
        print(f"| file server | {mount} | {seconds:.2f} | {ratio:.2f} | {paper} | {requests:.0f} |")
    print(
        "\nfilebench's file server (`bench/programs/extensions.c`): 1,000 files, 50 processes, 500 rounds. "
        "`Opt`: the layer `log`. `MDOpt`: with `extend=metadata+xattr+log`, too, which logs what the "
        "kernel answers. `AllOpt`: reads and writes are the kernel's and not logged (`log.data=no`). The "
        "paper had 200,000 files on an SSD."
    )
if "stat" in rows:
    table("100,000 times statx(2)", "of", "answered by", "ns each", "requests")
    names = {
        "ext4": "ext4",
        "kernel": "the kernel's own attribute cache",
        "module": "the module, each time (`AT_STATX_FORCE_SYNC`)",
        "server": "the server, each time (`AT_STATX_FORCE_SYNC`)",
    }
    for mount, name in names.items():
        seconds, requests, _ = rows["stat"][mount]
        print(f"| one file | {name} | {seconds * 10000:.0f} | {requests:.0f} |")
kinds = {"rr": "random reads", "sr": "reads", "rw": "random writes", "sw": "writes"}
if "rr 4 1" in rows:
    table(
        "One file of 32 MB", "what", "threads", "ext4: s", "Opt", "MDOpt", "AllOpt",
        "requests: Opt", "MDOpt", "AllOpt", "xattrs: Opt", "MDOpt", "AllOpt",
    )  # fmt: skip
    for what, of in rows.items():
        kind, _, rest = what.partition(" ")
        if kind not in kinds:
            continue
        size, threads = rest.split()
        cells = [f"{of['ext4'][0]:.2f}"]
        mounts = [of[mount] for mount in ("Opt", "MDOpt", "AllOpt")]
        cells += [f"{run[0] / of['ext4'][0]:.2f}" if of["ext4"][0] else "" for run in mounts]
        cells += [f"{run[n]:.0f}" for n in (1, 2) for run in mounts]
        print(f"| {size} KiB {kinds[kind]} | {threads} | {' | '.join(cells)} |")
    print(
        "\nAs filebench's workloads of these names: each thread has the file open once; 16,384 operations "
        "of 4 KiB, 64 of 1 MiB, by all threads together. Of the mounts: how often ext4's "
        "time."
    )
