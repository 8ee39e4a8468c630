"""numpy.memmap in all its modes, between two processes, beside ordinary reads and writes. mapped_numpy.py DIRECTORY"""

import os
import subprocess
import sys

import numpy as np

SHAPE = (500, 1000)


def other(code, *words):
    """What another process prints."""
    return subprocess.run([sys.executable, "-c", "import sys, os, numpy as np\n" + code, *words], check=True, capture_output=True, text=True).stdout.strip()


def main(directory):
    path = os.path.join(directory, "array")
    a = np.memmap(path, dtype="float64", mode="w+", shape=SHAPE)
    assert os.path.getsize(path) == a.nbytes and not a.any()
    a[:] = np.arange(a.size).reshape(SHAPE)
    a[100:200, ::7] *= -1
    # Another process sees it before and after flush, by mapping and by reading.
    show = "a = np.memmap(sys.argv[1], 'float64', mode=sys.argv[2], shape=(500, 1000)); print(a.sum(), a[150, 7])"
    expected = f"{a.sum()} {a[150, 7]}"
    for mode in ("r", "r+", "c"):
        assert other(show, path, mode) == expected, mode
    assert other("print(np.fromfile(sys.argv[1]).sum())", path) == str(a.sum())
    a.flush()

    # What another writes by its mapping is in this one; what it writes by calls too.
    other("a = np.memmap(sys.argv[1], 'float64', mode='r+', shape=(500, 1000)); a[3, 4] = 12.5; a.flush()", path)
    assert a[3, 4] == 12.5
    other("f = open(sys.argv[1], 'r+b'); f.seek(8 * 5006); f.write(np.float64(7.25).tobytes())", path)
    assert a[5, 6] == 7.25
    other("a = np.memmap(sys.argv[1], 'float64', mode='r+', shape=(500, 1000)); a[-1, -1] = 99; os._exit(0)", path)
    assert a[-1, -1] == 99

    # Copy on write stays here, read-only refuses, an offset is not a page's.
    c = np.memmap(path, "float64", mode="c", shape=SHAPE)
    c[:] = 1
    assert c.sum() == c.size and np.fromfile(path)[5006] == 7.25
    r = np.memmap(path, "float64", mode="r", shape=SHAPE)
    try:
        r[0, 0] = 1
        raise AssertionError("written")
    except ValueError:
        pass
    o = np.memmap(path, "float64", mode="r+", offset=8 * 1003, shape=(10,))
    o += 0.5
    assert a[1, 3] == 1003.5 and (np.memmap(path, "float64", mode="r", offset=8 * 1003, shape=(10,)) == o).all()

    # The file is a part of a larger one in .npy form; sorted in place; two maps of one file.
    m = np.lib.format.open_memmap(path + ".npy", mode="w+", dtype="int32", shape=(300000,))
    m[:] = np.random.default_rng(1).integers(0, 1 << 30, m.size)
    total = int(m.sum(dtype="int64"))
    n = np.load(path + ".npy", mmap_mode="r+")
    n.sort()
    assert (np.diff(m) >= 0).all() and int(np.load(path + ".npy").sum(dtype="int64")) == total
    del m, n, a, c, r, o
    assert np.fromfile(path)[-1] == 99
    print("right")


main(sys.argv[1])
