"""passthrough_server.py BACKING TARGET: a FUSE server with one file, "file", whose bytes it has itself
never seen: it opens it by passthrough of BACKING (FUSE_DEV_IOC_BACKING_OPEN), and READ and WRITE are
errors. Another name, "told", is there after somebody has looked for "tell": the server says so by
FUSE_NOTIFY_INVAL_ENTRY, for it was absent for an hour before.
"""
import ctypes
import errno
import fcntl
import os
import struct
import sys

backing, target = sys.argv[1:]
device = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
data = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}".encode()
if libc.mount(b"passthrough", target.encode(), b"fuse", 0, data) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
BACKING_OPEN, BACKING_CLOSE = 0x4010E501, 0x4004E502
PASSTHROUGH, INIT_EXT = 1 << 37, 1 << 30
HOUR = 3600
told = False


def attributes(node):
    if node == 1:
        return struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, os.getuid(), os.getgid(), 0, 4096, 0)
    of = os.stat(backing)
    return struct.pack("<6Q10I", node, of.st_size, of.st_blocks, 0, int(of.st_mtime), 0, 0, 0, 0, 0o100644, 1, os.getuid(), os.getgid(), 0, 4096, 0)


def entry(node, valid):
    return struct.pack("<4Q2I", node, 0, valid, 0, 0, 0) + attributes(node or 2)


def answer(opcode, node, body):
    global told
    if opcode == 26:
        flags = PASSTHROUGH | INIT_EXT
        low, high = flags & 0xFFFFFFFF, flags >> 32
        return struct.pack("<4I2H2I2H2I", 7, 40, 65536, low, 16, 12, 65536, 1, 16, 0, high, 1).ljust(64, b"\0")
    if opcode == 1:
        name = body.rstrip(b"\0")
        if name == b"tell":
            told = True
            notice = struct.pack("<QII", 1, 4, 0) + b"told\0"
            os.write(device, struct.pack("<IiQ", 16 + len(notice), 3, 0) + notice)
        if name == b"file" or name == b"told" and told:
            return entry(2 if name == b"file" else 3, HOUR)
        return entry(0, HOUR if name == b"told" else 0)
    if opcode == 3:
        return struct.pack("<Q2I", 0, 0, 0) + attributes(node)
    if opcode == 14:
        file = os.open(backing, os.O_RDWR)
        number = fcntl.ioctl(device, BACKING_OPEN, bytearray(struct.pack("<iIQ", file, 0, 0)), True)
        os.close(file)
        return struct.pack("<QIi", number, 1 << 7, number)
    if opcode == 18:
        number = struct.unpack_from("<Q", body)[0]
        fcntl.ioctl(device, BACKING_CLOSE, bytearray(struct.pack("<I", number)), True)
        return b""
    return errno.EIO if opcode in (15, 16) else errno.ENOSYS


while True:
    try:
        request = os.read(device, 1 << 17)
    except OSError as error:
        sys.exit(0 if error.errno == errno.ENODEV else str(error))
    length, opcode, unique, node = struct.unpack_from("<IIQQ", request)
    if opcode in (2, 42):
        continue
    reply = answer(opcode, node, request[40:])
    body, code = (b"", -reply) if type(reply) is int else (reply, 0)
    try:
        os.write(device, struct.pack("<IiQ", 16 + len(body), code, unique) + body)
    except FileNotFoundError:
        pass
    if opcode == 38:
        sys.exit(0)
