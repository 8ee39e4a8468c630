"""packet_server.py DEVICE LOG: a FUSE server that reads and writes the descriptor /dev/fd/N, and does
with some names what it should not. Each opcode that it is asked for is a line of LOG.

"big" has 1,000,000 bytes that count words, "largest" the largest READ that it has seen, in text.
A lookup of "short" is answered by 5 bytes, of "split" by the first half of the answer, of "twice"
by two answers, of "never" by none, of "retrieve" after FUSE_NOTIFY_RETRIEVE. "huge" is a file whose
READ it answers by more than a packet holds, and when that fails by EIO.
"""
import errno
import os
import struct
import sys

device, log = int(sys.argv[1].rsplit("/", 1)[1]), open(sys.argv[2], "w", buffering=1)
NAMES = {b"big": 2, b"largest": 3, b"huge": 4, b"twice": 5, b"retrieve": 6}
BIG = struct.pack("<125000Q", *range(125000))
largest = 0
waits = []


def content(node):
    return {2: BIG, 3: b"%6d\n" % largest, 4: bytes(400000)}.get(node, b"")


def attributes(node):
    mode, size = (0o40755, 0) if node == 1 else (0o100644, len(content(node)))
    return struct.pack("<6Q10I", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)


def write(code, number, body=b""):
    os.write(device, struct.pack("<IiQ", 16 + len(body), code, number) + body)


def look_up(unique, name):
    if name == b"never":
        waits.append(unique)
        return None
    if name == b"short":
        os.write(device, b"short")
        return None
    if name not in NAMES and name != b"split":
        return errno.ENOENT
    found = struct.pack("<4Q2I", NAMES.get(name, 7), 0, 0, 0, 0, 0) + attributes(NAMES.get(name, 7))
    if name == b"split":
        whole = struct.pack("<IiQ", 16 + len(found), 0, unique) + found
        os.write(device, whole[:70])
        os.write(device, whole[70:])
        return None
    if name == b"twice":
        write(0, unique, found)
    if name == b"retrieve":
        write(5, 0, struct.pack("<QQQII", 77, 2, 4096, 8192, 0))
    return found


def answer(opcode, unique, node, body):
    global largest
    if opcode == 26:
        asked = struct.unpack_from("<4I", body)
        return struct.pack("<4I2H2I2H2I", 7, 31, 1 << 20, asked[3] & ((1 << 22) | (1 << 5)), 16, 12, 1 << 20, 1, 256, 0, 0, 0).ljust(64, b"\0")
    if opcode == 1:
        return look_up(unique, body.rstrip(b"\0"))
    if opcode == 3:
        return struct.pack("<Q2I", 0, 0, 0) + attributes(node)
    if opcode == 14:
        return struct.pack("<QIi", 1, 1, 0)
    if opcode == 15:
        at, size = struct.unpack_from("<QI", body, 8)
        largest = max(largest, size)
        if node == 4:
            try:
                write(0, unique, bytes(600000))
            except OSError:
                return errno.EIO
            return None
        return content(node)[at : at + size]
    if opcode == 36:
        number = struct.unpack_from("<Q", body)[0]
        if number in waits:
            waits.remove(number)
            write(-errno.EINTR, number)
        return None
    if opcode in (18, 25):
        return b""
    if opcode == 41:
        retrieved = struct.unpack_from("<QQI", body)
        print("retrieved", unique, node, *retrieved[1:], file=log)
        return None
    return None if opcode in (2, 42) else errno.ENOSYS


while True:
    request = os.read(device, 1 << 18)
    if not request:
        sys.exit("the device has ended")
    length, opcode, unique, node = struct.unpack_from("<IIQQ", request)
    print(opcode, file=log)
    reply = answer(opcode, unique, node, request[40:])
    if reply is None:
        continue
    body, code = (b"", -reply) if type(reply) is int else (reply, 0)
    write(code, unique, body)
    if opcode == 38:
        sys.exit(0)
