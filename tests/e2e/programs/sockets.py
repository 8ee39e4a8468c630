"""Sockets and FIFOs with names in a directory that can be written: the working directory, absolute path in M."""
import errno, os, socket, stat, sys

M = os.environ["M"]


def say(what, call):
    try:
        print(what, call(), flush=True)
    except OSError as error:
        print(what, errno.errorcode[error.errno], flush=True)


def unix(kind=socket.SOCK_STREAM):
    return socket.socket(socket.AF_UNIX, kind)


def served(listener):
    peer, _ = listener.accept()
    with peer:
        peer.sendall(b"got " + peer.recv(100))


os.umask(0o027)
os.chdir(M)
os.mkdir("d")
listener = unix()
say("bind", lambda: listener.bind(M + "/d/s"))
say("name", listener.getsockname)
say("mode", lambda: oct(os.lstat("d/s").st_mode))
say("again", lambda: unix().bind("d/s"))
say("bound twice", lambda: listener.bind("d/t"))
say("listed", lambda: sorted(os.listdir("d")))
say("not listening", lambda: unix().connect("d/s"))
listener.listen()
for path in ["d/s", M + "/d/s", M + "/d/../d/s", "link"]:
    if path == "link":
        os.symlink("d/s", "link")
    sys.stdout.flush()
    if os.fork() == 0:
        client = unix()
        say("connect", lambda: client.connect(path))
        client.sendall(b"hello")
        say("reply", lambda: client.recv(100))
        say("peer", client.getpeername)
        os._exit(0)
    served(listener)
    os.wait()
open("file", "w").close()
say("file", lambda: unix().connect("file"))
say("file", lambda: unix().bind("file"))
say("missing", lambda: unix().connect("missing"))
say("nowhere", lambda: unix().bind("nowhere/s"))
say("open", lambda: os.open("d/s", os.O_RDONLY))
os.rename("d/s", "moved")
client = unix()
say("moved", lambda: client.connect("moved"))
os.unlink("moved")
say("unlinked", lambda: unix().connect("moved"))
receiver, sender = unix(socket.SOCK_DGRAM), unix(socket.SOCK_DGRAM)
say("datagrams", lambda: receiver.bind("g"))
say("send", lambda: sender.sendto(b"message", M + "/g"))
say("receive", lambda: receiver.recv(100))
say("wrong kind", lambda: unix().connect("g"))
os.mkfifo("fifo")
say("fifo", lambda: stat.S_ISFIFO(os.stat("fifo").st_mode))
sys.stdout.flush()
if os.fork() == 0:
    with open(M + "/fifo", "w") as fifo:
        fifo.write("through\n")
    os._exit(0)
with open("fifo") as fifo:
    print(fifo.read(), end="")
os.wait()
say("no reader", lambda: os.open("fifo", os.O_WRONLY | os.O_NONBLOCK))

# One without a name stays what it is while it is open: nobody gets its number, however many come
# and go.
kept = os.open("fifo", os.O_RDWR)
os.unlink("fifo")
MANY = 1200
for i in range(MANY):
    os.close(os.open("many", os.O_CREAT | os.O_WRONLY, 0o600))
    os.unlink("many")
number = os.fstat(kept).st_ino
others = set()
for i in range(MANY):
    os.mkfifo(f"p{i}")
    others.add(os.stat(f"p{i}").st_ino)
print("numbers", len(others), number in others)
os.fchmod(kept, 0o604)
found = os.fstat(kept)
print("kept", stat.filemode(found.st_mode), found.st_nlink)
os.write(kept, b"own")
first = os.open("p0", os.O_RDWR | os.O_NONBLOCK)
say("another's", lambda: os.read(first, 10))
say("own", lambda: os.read(kept, 10))
say("closed", lambda: os.close(kept))
for i in range(MANY):
    os.unlink(f"p{i}")

# Datagrams, by each call that gives or tells a name; the names are those that were given.
import ctypes, struct

server, client = unix(socket.SOCK_DGRAM), unix(socket.SOCK_DGRAM)
server.bind(M + "/log")
client.bind("asker")
say("named", client.getsockname)
for path in ["log", M + "/log", M + "/d/../log"]:
    say("sendmsg", lambda: client.sendmsg([b"one ", b"two"], [], 0, path))
    say("recvfrom", lambda: server.recvfrom(100))
    say("sendto", lambda: client.sendto(b"three", path))
    say("recvmsg", lambda: server.recvmsg(100, 100))
say("answer", lambda: server.sendto(b"four", "asker"))
say("answered", lambda: client.recvfrom(100))
say("nobody", lambda: client.sendmsg([b"x"], [], 0, "nothing"))
say("a file", lambda: client.sendmsg([b"x"], [], 0, "file"))

libc = ctypes.CDLL(None, use_errno=True)


def messages(paths, text=b"several"):
    """An array of `struct mmsghdr`, and what it points to."""
    kept, array = [], b""
    for path in paths:
        name = ctypes.create_string_buffer(struct.pack("H", 1) + path.encode() + b"\0")
        bytes_ = ctypes.create_string_buffer(text, 100)
        part = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(bytes_), len(text)))
        kept += [name, bytes_, part]
        array += struct.pack("PIxxxxPNPNixxxxIxxxx", ctypes.addressof(name), len(name) - 1, ctypes.addressof(part), 1, 0, 0, 0, 0)
    return ctypes.create_string_buffer(array, len(array)), kept


def sendmmsg(paths):
    array, kept = messages(paths)
    sent = libc.sendmmsg(client.fileno(), array, len(paths), 0)
    if sent < 0:
        raise OSError(ctypes.get_errno(), "")
    return sent, [struct.unpack_from("I", array.raw, i * 64 + 56)[0] for i in range(sent)]


say("sendmmsg", lambda: sendmmsg(["log", M + "/log", M + "/d/../log"]))
for _ in range(3):
    say("recvfrom", lambda: server.recvfrom(100))
say("sendmmsg", lambda: sendmmsg(["log", "nothing", "log"]))
say("recvfrom", lambda: server.recvfrom(100))
say("sendmmsg", lambda: sendmmsg(["nothing", "log"]))


def recvmmsg():
    array, kept = messages(["." * 100] * 2, b"." * 10)
    got = libc.recvmmsg(server.fileno(), array, 2, 0x40, None)
    if got < 0:
        raise OSError(ctypes.get_errno(), "")
    names = []
    for i in range(got):
        length = struct.unpack_from("I", array.raw, i * 64 + 8)[0]
        names.append((length, ctypes.string_at(ctypes.addressof(kept[i * 3]), length)))
    return got, names


client.sendto(b"1", "log")
client.sendto(b"2", "log")
say("recvmmsg", recvmmsg)
listener, caller = unix(), unix()
listener.bind("door")
listener.listen()
caller.bind(M + "/caller")
caller.connect("door")
peer, name = listener.accept()
print("accepted", name, peer.getpeername(), peer.getsockname())
short = ctypes.create_string_buffer(6)
length = ctypes.c_uint(6)
client.sendto(b"1", "log")
print("short", libc.recvfrom(server.fileno(), ctypes.create_string_buffer(10), 10, 0, short, ctypes.byref(length)), length.value, short.raw)
