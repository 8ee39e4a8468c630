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
