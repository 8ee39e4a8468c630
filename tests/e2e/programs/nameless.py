"""Files without a name that other programs get: by exec, by a socket, and removed or replaced while those hold them. Usage: nameless.py DIRECTORY"""
import array
import errno
import mmap
import os
import socket
import subprocess
import sys
import tempfile

where = sys.argv[1]
me = os.path.abspath(__file__)


def say(*words):
    print(*words, flush=True)


def look(fd):
    found = os.fstat(fd)
    return found.st_nlink, oct(found.st_mode), found.st_size, found.st_uid == os.getuid()


def child(part, fd, *words):
    """Runs a part of this program in a program of its own, with descriptor `fd`."""
    done = subprocess.run([sys.executable, me, where, part, str(fd), *words], pass_fds=[fd], stdin=subprocess.PIPE)
    say(part, "ended", done.returncode)


def temporary(content):
    file = tempfile.TemporaryFile(dir=where, buffering=0)
    file.write(content)
    return file


def here_document():
    script = "cat <<END | cksum\n$(yes here | head -c %d)\nEND\ncat <<END\nshort\nEND\n"
    for length in (100, 300000):
        subprocess.run(["bash", "-c", script % length], env=dict(os.environ, TMPDIR=where), check=True)


def reads(fd):
    say(look(fd), os.read(fd, 6), os.lseek(fd, 0, os.SEEK_CUR), os.lseek(fd, 2, os.SEEK_DATA), os.lseek(fd, 2, os.SEEK_HOLE))


def writes(fd):
    os.write(fd, b"CHILD")
    os.pwrite(fd, b"end", 7000)
    os.fchmod(fd, 0o640)
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    os.pwrite(again, b"again", 100)
    os.utime(fd, (1, 2))
    say(look(fd), look(again), os.stat(f"/proc/self/fd/{fd}").st_nlink, os.fstat(fd).st_mtime)


def maps(fd):
    with mmap.mmap(fd, 4096) as shown:
        say(bytes(shown[:11]))
        shown[200:205] = b"store"
        shown.flush()
    os.ftruncate(fd, 5000)
    say(look(fd))


def both_see_the_same():
    file = temporary(b"hello\n" * 1000)
    fd = file.fileno()
    file.seek(6)
    child("reads", fd)
    say(file.tell())
    child("writes", fd)
    say(file.tell(), look(fd), os.fstat(fd).st_mtime)
    file.seek(0)
    say(os.pread(fd, 30, 0), os.pread(fd, 10, 98), os.pread(fd, 10, 6995))
    shown = mmap.mmap(fd, 4096)
    child("maps", fd)
    say(look(fd), bytes(shown[198:208]), os.pread(fd, 10, 198))
    shown[0:5] = b"STORE"
    file.seek(0, os.SEEK_END)
    file.write(b"parent")
    child("reads", fd)
    say(os.pread(fd, 5, 0), os.pread(fd, 10, 5000))
    os.ftruncate(fd, 3)
    child("reads_all", fd)


def reads_all(fd):
    say(look(fd), os.pread(fd, 100, 0))


def waits(fd, ready, go):
    """Looks at its descriptor only when the file has lost its name."""
    os.write(int(ready), b".")
    os.read(int(go), 1)
    say(look(fd), os.pread(fd, 100, 0))
    os.pwrite(fd, b"W", 0)


def lost_while_held():
    for by in ("unlink", "rename"):
        name = os.path.join(where, "held")
        with open(name, "w+b", buffering=0) as file:
            file.write(b"held by " + by.encode())
            fd = file.fileno()
            ready, tell_ready = os.pipe()
            go, tell_go = os.pipe()
            words = [sys.executable, me, where, "waits", str(fd), str(tell_ready), str(go)]
            holder = subprocess.Popen(words, pass_fds=[fd, tell_ready, go])
            os.read(ready, 1)
            if by == "unlink":
                os.unlink(name)
            else:
                with open(name + ".new", "wb") as new:
                    new.write(b"another file")
                os.rename(name + ".new", name)
            os.write(tell_go, b".")
            say(by, holder.wait(), look(fd), os.pread(fd, 100, 0))
            for end in (ready, tell_ready, go, tell_go):
                os.close(end)
    with open(name, "rb") as file:
        say(file.read())
    os.unlink(name)


def by_a_socket():
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    words = [sys.executable, me, where, "receives", str(there.fileno())]
    other = subprocess.Popen(words, pass_fds=[there.fileno()])
    file = temporary(b"sent")
    rights = array.array("i", [file.fileno()])
    here.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    say("receives", other.wait(), look(file.fileno()), os.pread(file.fileno(), 20, 0))


def receives(fd):
    there = socket.socket(fileno=os.dup(fd))
    _, all, _, _ = there.recvmsg(1, socket.CMSG_SPACE(4))
    rights = array.array("i", all[0][2])
    say(look(rights[0]), os.pread(rights[0], 20, 0))
    os.pwrite(rights[0], b"and received", 4)


def numbers_that_come_again():
    """Each file is removed while another program holds it; the next may get its inode's number."""
    holders = []
    for number in range(8):
        name = os.path.join(where, "again")
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(fd, b"file %d" % number)
        ready, tell_ready = os.pipe()
        go, tell_go = os.pipe()
        words = [sys.executable, me, where, "waits", str(fd), str(tell_ready), str(go)]
        holder = subprocess.Popen(words, pass_fds=[fd, tell_ready, go], stdout=subprocess.PIPE)
        os.read(ready, 1)
        os.unlink(name)
        for end in (fd, ready, tell_ready, go):
            os.close(end)
        holders.append((holder, tell_go))
    for holder, tell_go in holders:
        os.write(tell_go, b".")
        say(holder.communicate()[0], holder.wait())


def not_where_no_name_may_be_made():
    """Open to nobody but the superuser, whose rights are put away."""
    closed = os.path.join(where, "closed")
    os.mkdir(closed, 0o555)
    os.chdir(closed)
    superuser = os.getuid() == 0
    if superuser:
        os.seteuid(65534)
    try:
        os.close(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600))
        say("made")
    except OSError as error:
        # Drivers that look at rights themselves may have no such files at all.
        say("refused", error.errno in (errno.EACCES, errno.EOPNOTSUPP))
    if superuser:
        os.seteuid(0)
    os.rmdir(closed)


if len(sys.argv) > 2:
    globals()[sys.argv[2]](int(sys.argv[3]), *sys.argv[4:])
else:
    here_document()
    both_see_the_same()
    lost_while_held()
    by_a_socket()
    numbers_that_come_again()
    not_where_no_name_may_be_made()
