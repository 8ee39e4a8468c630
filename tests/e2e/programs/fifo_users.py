"""FIFOs that a process opens after it has become another user, in a directory that can be written by all. Root natively and on mounts."""
import errno, os, stat, sys

NOBODY, OTHER = 65534, 12345
os.umask(0)
os.chmod(".", 0o777)


def attempt(what, call):
    try:
        print(what, call(), flush=True)
    except OSError as error:
        print(what, errno.errorcode[error.errno], flush=True)


def as_user(user, body):
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        body()
        os._exit(0)
    return child


for mode in [0o666, 0o600, 0o640, 0o622, 0o444, 0o060, 0o006]:
    for owner, group in [(0, 0), (NOBODY, 0), (0, NOBODY)]:
        name = f"fifo{mode:o}.{owner}.{group}"
        os.mkfifo(name, mode)
        os.chown(name, owner, group)
        for first in [True, False]:
            # Opened by root first, or by the other user.
            path = name if first else name + "b"
            if not first:
                os.mkfifo(path, mode)
                os.chown(path, owner, group)
            end = os.open(path, os.O_RDWR | os.O_NONBLOCK) if first else None
            for user in [NOBODY, OTHER]:
                def body():
                    for flags in [os.O_RDONLY, os.O_RDWR]:
                        attempt(f"{path} as {user} {flags}", lambda: stat.S_ISFIFO(os.fstat(os.open(path, flags | os.O_NONBLOCK)).st_mode))
                    attempt(f"{path} as {user}", lambda: (lambda fd: (os.write(fd, b"hi"), oct(os.fstat(fd).st_mode)))(os.open(path, os.O_RDWR | os.O_NONBLOCK)))
                os.waitpid(as_user(user, body), 0)
            if end is not None:
                attempt(f"{path} read", lambda: os.read(end, 100))
                os.close(end)
            attempt(f"{path} root", lambda: os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK)))
# A writer and a reader who wait for each other, both other users.
os.mkfifo("wait", 0o666)
writer = as_user(NOBODY, lambda: os.write(os.open("wait", os.O_WRONLY), b"across users"))
reader = as_user(OTHER, lambda: print(os.read(os.open("wait", os.O_RDONLY), 100), flush=True))
print([os.waitpid(child, 0)[1] for child in [reader, writer]])
# Back to root, as Samba does.
os.seteuid(NOBODY)
attempt("effective", lambda: os.close(os.open("fifo666.0.0", os.O_RDWR)))
attempt("effective", lambda: os.close(os.open("fifo600.0.0", os.O_RDWR)))
os.mkfifo("own", 0o600)
attempt("own", lambda: os.close(os.open("own", os.O_RDWR)))
os.seteuid(0)
attempt("root", lambda: os.close(os.open("own", os.O_RDWR)))
attempt("root", lambda: os.close(os.open("fifo600.0.0", os.O_RDWR)))
