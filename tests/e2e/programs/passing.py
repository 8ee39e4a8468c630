"""One process sends descriptors of the mount to another that never had them."""

import os
import socket
import sys

path = os.environ["W"] + "/socket"
if sys.argv[1] == "send":
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    fds = [os.open(os.path.join(os.environ["M"], name), os.O_RDONLY) for name in ("lines.txt", "dir", "hello.txt")]
    os.read(fds[0], 7)
    socket.send_fds(connection, [b"x"], fds)
    connection.recv(1)
    print("sender", os.read(fds[0], 7), flush=True)
else:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    if os.fork() == 0:
        os.execlp("python3", "python3", sys.argv[0], "send")
    connection, _ = listener.accept()
    _, fds, _, _ = socket.recv_fds(connection, 10, 10)
    print("receiver", os.read(fds[0], 7), sorted(os.listdir(fds[1])), os.pread(fds[2], 5, 7), os.fstat(fds[2]).st_size)
    print(os.readlink("/proc/self/fd/%d" % fds[2]))
    os.fchdir(fds[1])
    print(open("a.txt").read(), os.getcwd(), flush=True)
    connection.send(b"y")
    os.wait()
    print("receiver", os.read(fds[0], 7))
