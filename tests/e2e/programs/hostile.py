"""Writes archives that are wrong in one way each into the directory given. The good one is good.tar."""

import gzip
import io
import os
import struct
import subprocess
import sys
import tarfile
import zipfile

os.chdir(sys.argv[1])


def member(name, data=b"", kind=tarfile.REGTYPE, link="", **more):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.type = kind
    info.linkname = link
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def tar(name, *members, format=tarfile.GNU_FORMAT):
    with tarfile.open(name, "w", format=format) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))


def header(name, size_field, kind=b"0", magic=b"ustar\x0000"):
    block = bytearray(512)
    block[0:len(name)] = name
    block[100:108] = b"0000644\0"
    block[108:116] = block[116:124] = b"0000000\0"
    block[124:136] = size_field
    block[136:148] = b"00000000000\0"
    block[156:157] = kind
    block[257:265] = magic
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)


random = bytes((i * 7919 >> 3) & 255 for i in range(200000))
tar("good.tar", member("a", b"good a\n"), member("d/b", random))
good = open("good.tar", "rb").read()
with zipfile.ZipFile("good.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("a", "good a\n")
    archive.writestr("d/b", random)
good_zip = open("good.zip", "rb").read()
good_gz = gzip.compress(good, mtime=0)

# No archives at all.
write("text.tar", b"this is no archive\n" * 100)
write("noise.tar", random[:100000])
write("empty.zip.txt", b"")
write("text.zip", b"PK\3\4 and then nothing of the kind" * 10)
write("text.tar.gz", b"\x1f\x8b\x08\x00 but no deflate stream follows here" * 10)
write("text.tar.xz", b"\xfd7zXZ\0 but nothing more")
write("text.tar.zst", b"\x28\xb5\x2f\xfd but nothing more at all")
write("text.tar.bz2", b"BZh9 but nothing more at all")

# Cut short.
write("cut-header.tar", good[:700])
write("cut-data.tar", good[:100000])
write("cut.tar.gz", good_gz[: len(good_gz) // 2])
write("cut-trailer.tar.gz", good_gz[:-4])
write("cut.zip", good_zip[: len(good_zip) // 2])
write("cut-directory.zip", good_zip[:-30])
for name, tool in (("xz", "xz"), ("zst", "zstd"), ("bz2", "bzip2")):
    packed = subprocess.run([tool, "-c"], input=good, capture_output=True, check=True).stdout
    write("cut.tar." + name, packed[: len(packed) // 2])

# Bits turned over.
broken = bytearray(good)
broken[512 + 512 + 10] ^= 1
write("bad-checksum.tar", bytes(broken))
broken = bytearray(good_gz)
broken[len(broken) // 2] ^= 0x55
write("bad-middle.tar.gz", bytes(broken))
broken = bytearray(good_gz)
broken[-6] ^= 0x55
write("bad-crc.tar.gz", bytes(broken))
broken = bytearray(good_zip)
broken[good_zip.rindex(b"PK\1\2") + 42] ^= 0xFF
write("bad-offset.zip", bytes(broken))

# Encrypted.
write("secret.txt", b"secret\n")
subprocess.run(["zip", "-q", "-P", "word", "encrypted.zip", "secret.txt"], check=True)

# Names that leave the mount, or are none.
tar("absolute.tar", member("/etc/passwd", b"mine\n"), member("ok", b"ok\n"))
tar("dotdot.tar", member("../escaped", b"mine\n"), member("a/../../escaped2", b"mine\n"), member("ok", b"ok\n"), member("./d/./e//f", b"f\n"))
tar("dots.tar", member(".", kind=tarfile.DIRTYPE), member("..", b"x"), member("./..", b"x"), member("", b"nameless"), member("ok", b"ok\n"))
with zipfile.ZipFile("dotdot.zip", "w") as archive:
    for name in ("../escaped", "/etc/passwd", "a/../../x", "ok", "back\\slash", "C:\\x"):
        archive.writestr(name, "mine\n" if name != "ok" else "ok\n")
tar("through-link.tar", member("l", kind=tarfile.SYMTYPE, link="/tmp"), member("l/escaped", b"mine\n"), member("ok", b"ok\n"))

# Duplicates and conflicts.
tar("duplicates.tar", member("f", b"first\n"), member("f", b"second, the one that counts\n"), member("ok", b"ok\n"))
tar("conflict.tar", member("x", b"a file\n"), member("x/y", b"below a file\n"), member("ok", b"ok\n"))
tar("conflict2.tar", member("x/y", b"below\n"), member("x", b"a file\n"), member("ok", b"ok\n"))
with zipfile.ZipFile("duplicates.zip", "w") as archive:
    archive.writestr("f", "first\n")
    archive.writestr("f", "second, the one that counts\n")
    archive.writestr("ok", "ok\n")

# Links in circles.
tar("hard-cycle.tar", member("a", kind=tarfile.LNKTYPE, link="b"), member("b", kind=tarfile.LNKTYPE, link="c"), member("c", kind=tarfile.LNKTYPE, link="a"), member("ok", b"ok\n"))
tar("hard-self.tar", member("a", kind=tarfile.LNKTYPE, link="a"), member("ok", b"ok\n"))
tar("hard-missing.tar", member("a", kind=tarfile.LNKTYPE, link="missing"), member("ok", b"ok\n"))
tar("hard-directory.tar", member("d", kind=tarfile.DIRTYPE), member("a", kind=tarfile.LNKTYPE, link="d"), member("d/in", b"x"), member("ok", b"ok\n"))
tar("hard-out.tar", member("a", kind=tarfile.LNKTYPE, link="/etc/shadow"), member("b", kind=tarfile.LNKTYPE, link="../../etc/shadow"), member("ok", b"ok\n"))
tar("symbolic-cycle.tar", member("a", kind=tarfile.SYMTYPE, link="b"), member("b", kind=tarfile.SYMTYPE, link="a"), member("ok", b"ok\n"))

# Sizes.
write("size-2-63.tar", header(b"big", b"\x80\0\0\0" + struct.pack(">Q", 1 << 63)) + good)
write("size-2-63-1.tar", header(b"big", b"\x80\0\0\0" + struct.pack(">Q", (1 << 63) - 1)) + good)
write("size-negative.tar", header(b"big", b"\xff" * 12) + good)
write("size-octal.tar", header(b"big", b"77777777777\0") + good)
write("size-letters.tar", header(b"big", b"hello world\0") + good)
write("pax-size.tar", header(b"p", b"00000000036\0", b"x") + b"30 size=9223372036854775807000\n".ljust(512, b"\0") + header(b"big", b"00000000000\0") + good)
write("pax-length.tar", header(b"p", b"00000000036\0", b"x") + b"99999999999999999999 path=x\n".ljust(512, b"\0") + header(b"big", b"00000000000\0") + good)
write("long-name-huge.tar", header(b"././@LongLink", b"77777777777\0", b"L", b"ustar  \0") + b"n" * 512 + good)
broken = bytearray(good_zip)
at = good_zip.rindex(b"PK\1\2")
broken[at + 20 : at + 28] = b"\xfe\xff\xff\xff\xfe\xff\xff\xff"
write("size.zip", bytes(broken))

# Bombs: a gigabyte of nothing in a megabyte, ten thousand levels, a million names for a few bytes.
zeros = subprocess.Popen(["gzip", "-1", "-c"], stdin=subprocess.PIPE, stdout=open("bomb.tar.gz", "wb"))
zeros.stdin.write(header(b"zeros", b"%011o\0" % (1 << 30)))
for _ in range(256):
    zeros.stdin.write(bytes(1 << 22))
info, data = member("ok", b"ok\n")
zeros.stdin.write(info.tobuf(tarfile.GNU_FORMAT) + data.ljust(512, b"\0") + bytes(1024))
zeros.stdin.close()
zeros.wait()
tar("deep.tar", member("/".join(["d"] * 3000) + "/bottom", b"bottom\n"), member("ok", b"ok\n"))
sparse_map = b"".join(b"%d\n%d\n" % (i * 4096, 0) for i in range(1000))
body = (b"1000\n" + sparse_map).ljust(-(-len(sparse_map + b"1000\n") // 512) * 512, b"\0")
tar("sparse-huge.tar", member("s", body, pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s", "GNU.sparse.realsize": str((1 << 63) - 1)}), member("ok", b"ok\n"), format=tarfile.PAX_FORMAT)
# A zip whose entries all name the same bytes.
entry = good_zip[good_zip.index(b"PK\1\2") : good_zip.rindex(b"PK\1\2")]
start = good_zip.index(b"PK\1\2")
many = b"".join(entry[:46] + b"%c" % (97 + i) + entry[47:] for i in range(26))
write("overlap.zip", good_zip[:start] + many + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 26, 26, len(many), start, 0))
