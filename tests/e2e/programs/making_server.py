"""making_server.py DEVICE LOG GROUP OTHER: a FUSE server that makes what it is asked for, and has agreed
on what a request says besides of who makes it (FUSE_CREATE_SUPP_GROUP, FUSE_SECURITY_CTX). What is
there, the root too, is of GROUP; what is made in a directory "other" of OTHER. LOG has a line for
each request that makes something: its opcode, its user and group, and the words behind its body.
"""
import errno
import os
import stat
import struct
import sys

device, log = int(sys.argv[1].rsplit("/", 1)[1]), open(sys.argv[2], "a", buffering=1)
group, other = map(int, sys.argv[3:])
INIT_EXT, SECURITY_CTX, CREATE_SUPP_GROUP = 1 << 30, 1 << 32, 1 << 34
# Mode and name of each node; node 1 is the root.
nodes = [None, (stat.S_IFDIR | 0o775, b"")]
names = {}
made = {8: 16, 9: 8, 35: 16, 51: 16}


def attributes(node):
    mode, name = nodes[node]
    of = other if name == b"other" else group
    return struct.pack("<6Q10I", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), of, 0, 4096, 0)


def entry(node):
    return struct.pack("<4Q2I", node, 0, 60, 60, 0, 0) + attributes(node)


def answer(opcode, node, body, extension):
    if opcode == 26:
        flags = INIT_EXT | SECURITY_CTX | CREATE_SUPP_GROUP
        offered = struct.unpack_from("<I", body, 12)[0] | struct.unpack_from("<I", body, 16)[0] << 32
        assert offered & flags == flags, hex(offered)
        low, high = flags & 0xFFFFFFFF, flags >> 32
        return struct.pack("<4I2H2I2H2I", 7, 40, 65536, low, 16, 12, 65536, 1, 16, 0, high, 0).ljust(64, b"\0")
    if opcode == 1:
        found = names.get((node, body.rstrip(b"\0")))
        return entry(found) if found else errno.ENOENT
    if opcode == 3:
        return struct.pack("<Q2I", 60, 0, 0) + attributes(node)
    if opcode in (6, 8, 9, 35, 51):
        mode = struct.unpack_from("<I", body, 4 if opcode in (35, 51) else 0)[0]
        mode = {6: stat.S_IFLNK | 0o777, 9: stat.S_IFDIR | mode}.get(opcode, mode)
        name = body[made.get(opcode, 0) :].split(b"\0")[0]
        nodes.append((mode, name))
        if opcode != 51:
            names[node, name] = len(nodes) - 1
        opened = struct.pack("<QIi", 1, 0, 0) if opcode in (35, 51) else b""
        return entry(len(nodes) - 1) + opened
    return b"" if opcode in (18, 25) else errno.ENOSYS


while True:
    try:
        request = os.read(device, 1 << 17)
    except OSError as error:
        sys.exit(0 if error.errno == errno.ENODEV else str(error))
    if not request:
        sys.exit(0)
    length, opcode, unique, node, uid, gid, _, units = struct.unpack_from("<IIQQIIIH", request)
    assert length == len(request)
    body, extension = request[40 : length - 8 * units], request[length - 8 * units :]
    if opcode in (6, 8, 9, 35, 51):
        print(opcode, uid, gid, *struct.unpack("<%dI" % (2 * units), extension), file=log)
    if opcode in (2, 42):
        continue
    reply = answer(opcode, node, body, extension)
    body, code = (b"", -reply) if type(reply) is int else (reply, 0)
    os.write(device, struct.pack("<IiQ", 16 + len(body), code, unique) + body)
    if opcode == 38:
        sys.exit(0)
