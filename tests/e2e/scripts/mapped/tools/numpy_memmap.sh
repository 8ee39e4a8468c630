/usr/bin/python3 -c '
import numpy as np

a = np.fromfile("array")
assert a[-1] == 99 and a[5006] == 7.25 and a[1003] == 1003.5 and a[3004] == 12.5, a
n = np.load("array.npy")
assert (np.diff(n) >= 0).all()
'
