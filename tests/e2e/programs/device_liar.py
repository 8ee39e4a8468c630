"""A FUSE server that writes wrong things to /dev/fuse, each once, and right ones afterwards.

    device_liar.py TARGET LOG

The name that is looked up says what is wrong. LOG gets what the device says to each write."""

import ctypes
import errno
import os
import stat
import struct
import sys

target, log = sys.argv[1:]
log = open(log, "w", buffering=1)
LOOKUP, GETATTR, OPEN, READ, WRITE = 1, 3, 14, 15, 16
FLUSH, RELEASE, INIT, INTERRUPT = 25, 18, 26, 36
FORGET, BATCH_FORGET, DESTROY, ACCESS = 2, 42, 38, 34
DIRECT_IO = 1
NAMES = ["truncated", "longer", "kind", "read", "written"]

device = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
if libc.mount(b"liar", target.encode(), b"fuse", 0, options.encode()) != 0:
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")


def put(data):
    try:
        os.write(device, data)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]


def reply(unique, body=b"", error=0, length=None):
    length = 16 + len(body) if length is None else length
    return struct.pack("<IiQ", length, error, unique) + body


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == 1 else stat.S_IFREG | 0o644
    if node == 2 + NAMES.index("kind"):
        mode = 0o644
    return struct.pack("<QQQQQQIIIIIIIIII", node, 10000, 20, *[0] * 3, *[0] * 3, mode, 1,
                       os.getuid(), os.getgid(), 0, 4096, 0)


def entry(node):
    return struct.pack("<QQQQII", node, 0, 0, 0, 0, 0) + attributes(node)


def lookup(unique, name):
    absent = reply(unique, error=-errno.ENOENT)
    wrong = {
        "short": [absent[:8], absent[:15]],
        "length": [reply(unique, length=17), reply(unique, b"x" * 8, length=16)],
        "unknown": [reply(unique ^ 0xF0), reply(unique + (1 << 40))],
        "positive": [reply(unique, error=5)],
        "large": [reply(unique, error=-512), reply(unique, error=-100000)],
        "notice": [reply(0, b"x" * 24, error=99), reply(0, b"x" * 3, error=2)],
    }
    told = [put(one) for one in wrong.get(name, [])]
    if name == "errorbody":
        told.append(put(reply(unique, b"x" * 8, error=-errno.ENOENT)))
        told.append(put(absent))
    elif name == "twice":
        told += [put(absent), put(absent), put(reply(unique, entry(2)))]
    elif name in NAMES:
        body = entry(2 + NAMES.index(name))
        put(reply(unique, {"truncated": body[:20], "longer": body + b"x" * 8}.get(name, body)))
    else:
        told.append(put(absent))
    if told:
        print(name, *told, file=log)


while True:
    try:
        request = os.read(device, (1 << 20) + 65536)
    except OSError as error:
        if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
            continue
        break
    length, opcode, unique, node, *_ = struct.unpack("<IIQQIIII", request[:40])
    body = request[40:]
    if opcode == INIT:
        major, minor, ahead, flags = struct.unpack("<IIII", body[:16])
        put(reply(unique, struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 12, 9, 65536, 1, 0, 0, 0)))
    elif opcode == LOOKUP:
        lookup(unique, body.rstrip(b"\0").decode())
    elif opcode == GETATTR:
        put(reply(unique, struct.pack("<QII", 0, 0, 0) + attributes(node)))
    elif opcode == OPEN:
        put(reply(unique, struct.pack("<QII", 7, DIRECT_IO, 0)))
    elif opcode == READ:
        size = struct.unpack("<QQI", body[:20])[2]
        put(reply(unique, b"x" * (size + 4096)))
    elif opcode == WRITE:
        size = struct.unpack("<QQI", body[:20])[2]
        put(reply(unique, struct.pack("<II", size + 1, 0)))
    elif opcode in (FORGET, BATCH_FORGET, INTERRUPT):
        pass
    elif opcode in (FLUSH, RELEASE, ACCESS, DESTROY):
        put(reply(unique))
    else:
        put(reply(unique, error=-errno.ENOSYS))
