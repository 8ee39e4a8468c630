python3 -c '
import ctypes, os

l = ctypes.CDLL(os.environ["M"] + "/lib/libanswer.so")
print(l.answer())
print(any("libanswer" in x for x in open("/proc/self/maps")) or "unnamed")
' \
    | head -n 1
LD_PRELOAD=$M/lib/libanswer.so cat $M/words | md5sum
