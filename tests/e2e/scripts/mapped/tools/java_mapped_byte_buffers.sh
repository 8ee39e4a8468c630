/usr/bin/python3 -c '
import struct

b = open("file", "rb").read()
assert len(b) == 3 << 20 and all(
    struct.unpack_from(">q", b, i) == (-i,) for i in range(4096, len(b), 4096)
)
'
