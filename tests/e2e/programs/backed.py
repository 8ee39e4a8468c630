"""Files whose descriptors are the kernel's, and what may be done with them: prints what it finds,
which must be the same in a mount as in a directory."""

import array, ctypes, errno, fcntl, mmap, os, resource, signal, socket, subprocess, sys, threading

LIBC = ctypes.CDLL(None, use_errno=True)


def tell(name, what):
    print(f"{name}: {what}", flush=True)


def attempt(name, work):
    try:
        tell(name, work())
    except OSError as error:
        tell(name, errno.errorcode[error.errno])


def content(name):
    with open(name, "rb") as file:
        return file.read()


def shape(stat):
    return (oct(stat.st_mode), stat.st_nlink, stat.st_size, stat.st_uid == os.getuid())


def same_file(fd, name):
    one, other = os.fstat(fd), os.stat(name)
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


# Numbers, flags, offsets.
fd = os.open("f", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
low = os.open("/dev/null", os.O_RDONLY)
tell("numbers", low - fd)
os.close(low)
tell("getfl", oct(fcntl.fcntl(fd, fcntl.F_GETFL)))
tell("getfd", fcntl.fcntl(fd, fcntl.F_GETFD))
os.write(fd, b"0123456789")
other = os.dup(fd)
tell("dup", other - fd)
os.lseek(other, 3, os.SEEK_SET)
tell("one offset", os.read(fd, 2))
tell("same", same_file(other, "f"))
os.close(fd)
tell("after close", (os.read(other, 2), same_file(other, "f"), shape(os.fstat(other))))
attempt("closed", lambda: os.fstat(fd))
plain = os.open("f", os.O_WRONLY)
attempt("not readable", lambda: os.read(plain, 1))
os.dup2(other, plain)
tell("dup2", (same_file(plain, "f"), os.lseek(plain, 0, os.SEEK_CUR)))
os.close(plain)

# What each open is for.
append = os.open("f", os.O_WRONLY | os.O_APPEND)
os.lseek(append, 0, os.SEEK_SET)
os.write(append, b"end")
os.pwrite(append, b"!", 0)
tell("append", (content("f"), oct(fcntl.fcntl(append, fcntl.F_GETFL))))
fcntl.fcntl(append, fcntl.F_SETFL, 0)
os.pwrite(append, b"?", 0)
tell("no append", (content("f"), oct(fcntl.fcntl(append, fcntl.F_GETFL))))
second = os.dup(append)
fcntl.fcntl(second, fcntl.F_SETFL, os.O_APPEND | os.O_NONBLOCK)
tell("flags of both", [oct(fcntl.fcntl(fd, fcntl.F_GETFL)) for fd in (append, second)])
os.write(append, b"both")
tell("append of both", content("f"))
fcntl.fcntl(append, fcntl.F_SETFL, 0)
os.close(second)
attempt("truncate", lambda: os.ftruncate(append, 4))
attempt("negative", lambda: os.ftruncate(append, -1))
attempt("not for writing", lambda: os.ftruncate(os.open("f", os.O_RDONLY), 2))
tell("cut", (content("f"), shape(os.fstat(append))))
os.close(append)

# Attributes by descriptor.
os.fchmod(other, 0o600)
os.utime(other, ns=(1_000_000_007, 2_000_000_009))
stat = os.fstat(other)
tell("attributes", (shape(stat), stat.st_atime_ns, stat.st_mtime_ns))
attempt("chown", lambda: os.fchown(other, -1, -1))
attempt("xattr", lambda: os.setxattr(other, "user.x", b"y"))
attempt("xattrs", lambda: (os.listxattr(other), os.getxattr("f", "user.x")))
attempt("fsync", lambda: os.fsync(other))
attempt("fdatasync", lambda: os.fdatasync(other))
tell("statvfs", os.fstatvfs(other).f_namemax)
tell("link", os.readlink(f"/proc/self/fd/{other}") == os.path.abspath("f"))
again = os.open(f"/proc/self/fd/{other}", os.O_RDONLY)
tell("again", (os.lseek(again, 0, os.SEEK_CUR), os.read(again, 2), same_file(again, "f")))
os.close(again)

# Bytes: mappings, copies, space, limits.
os.ftruncate(other, 8192)
with mmap.mmap(other, 8192) as memory:
    memory[5000:5003] = b"map"
    tell("mapped", os.pread(other, 3, 5000))
    os.pwrite(other, b"out", 6000)
    tell("seen", memory[6000:6003])
copy = os.open("g", os.O_RDWR | os.O_CREAT, 0o600)
os.lseek(other, 5000, os.SEEK_SET)
attempt("copied", lambda: os.copy_file_range(other, copy, 3))
attempt("sent", lambda: os.sendfile(copy, other, 6000, 3))
tell("copy", content("g"))
attempt("space", lambda: os.posix_fallocate(copy, 0, 4096))
tell("hole", os.lseek(other, 0, os.SEEK_DATA) >= 0)
reader, writer = os.pipe()
attempt("spliced", lambda: os.splice(copy, writer, 3, offset_src=0))
tell("from the pipe", os.read(reader, 9))
child = os.fork()
if child == 0:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    attempt("limit", lambda: os.pwrite(copy, b"x" * 100, 4090))
    attempt("limit", lambda: os.pwrite(copy, b"x", 4096))
    attempt("limit", lambda: os.ftruncate(copy, 5000))
    os.fchmod(copy, 0o640)
    os.lseek(copy, 17, os.SEEK_SET)
    os._exit(0)
os.waitpid(child, 0)
tell("after the child", (shape(os.fstat(copy)), os.lseek(copy, 0, os.SEEK_CUR)))

# Locks.
fcntl.lockf(copy, fcntl.LOCK_EX)
child = os.fork()
if child == 0:
    mine = os.open("g", os.O_RDWR)
    attempt("lock", lambda: fcntl.lockf(mine, fcntl.LOCK_EX | fcntl.LOCK_NB))
    attempt("flock", lambda: fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB))
    os._exit(0)
os.waitpid(child, 0)
os.close(os.open("g", os.O_RDONLY))
child = os.fork()
if child == 0:
    attempt("lock is lost", lambda: fcntl.lockf(copy, fcntl.LOCK_EX | fcntl.LOCK_NB))
    os._exit(0)
os.waitpid(child, 0)
fcntl.flock(copy, fcntl.LOCK_EX)
mine = os.open("g", os.O_RDWR)
attempt("flock is kept", lambda: fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB))
os.close(mine)

# Other programs: by exec, with all closed but some, by a socket, through one that is not
# intercepted.
ask = "import os, sys; s = os.fstat(7); print(oct(s.st_mode), s.st_size, os.read(7, 4), flush=True); os.fchmod(7, 0o644); os.ftruncate(7, 20)"
os.lseek(copy, 0, os.SEEK_SET)
os.dup2(copy, 7)
for runs in ([sys.executable, "-c", ask], ["env", "-i", sys.executable, "-c", ask]):
    subprocess.run(runs, pass_fds=[7], check=True)
    tell("after exec", (shape(os.fstat(copy)), os.lseek(copy, 0, os.SEEK_CUR)))
os.posix_spawn("/bin/sh", ["sh", "-c", "echo spawned >&7; cat <&7"], os.environ)
os.wait()
tell("after spawn", content("g"))
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
child = os.fork()
if child == 0:
    os.close(copy)
    os.close(7)
    _, message, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
    received = array.array("i", message[0][2])[0]
    tell("received", (shape(os.fstat(received)), same_file(received, "g")))
    os.fchmod(received, 0o604)
    os._exit(0)
ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [copy]))])
os.waitpid(child, 0)
tell("after the socket", shape(os.fstat(copy)))

# Without a name.
os.unlink("g")
tell("unlinked", shape(os.fstat(copy)))
os.fchmod(copy, 0o400)
os.ftruncate(copy, 2)
tell("changed", (shape(os.fstat(copy)), os.pread(copy, 9, 0)))
subprocess.run([sys.executable, "-c", "import os; print(oct(os.fstat(7).st_mode), os.fstat(7).st_nlink)"], pass_fds=[7])
attempt("reopened", lambda: os.read(os.open(f"/proc/self/fd/{copy}", os.O_RDONLY), 9))
attempt("nameless", lambda: shape(os.fstat(os.open(".", os.O_RDWR | os.O_TMPFILE, 0o600))))

# Threads that open, ask and close.
def work(number):
    for _ in range(200):
        mine = os.open(f"t{number}", os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(mine, bytes([number]) * 8, 0)
        if not same_file(mine, f"t{number}") or os.pread(mine, 9, 0) != bytes([number]) * 8:
            tell("thread", "another file")
        copied = os.dup(mine)
        os.close(mine)
        if not same_file(copied, f"t{number}"):
            tell("thread", "another file by its dup")
        os.close(copied)


threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
tell("numbers at the end", os.open("/dev/null", os.O_RDONLY) - other)
