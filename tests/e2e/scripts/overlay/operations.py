"""Random operations below a directory, by two processes in turn, and what they say; what a tree
shows; what lies in an upper layer.
Usage: operations.py steps DIR SEED | tree DIR | disk DIR PREFIX"""
import ctypes, errno, mmap, os, pickle, random, stat, struct, subprocess, sys

libc = ctypes.CDLL(None, use_errno=True)
NAMES, SLOTS, STEPS = "abcde", 3, 80
NO_REPLACE, EXCHANGE = 1, 2


def rename(old, new, flags):
    if libc.renameat2(-100, old.encode(), -100, new.encode(), flags):
        raise OSError(ctypes.get_errno(), "")


class Worker:
    """A process with files open. It says what a call gives."""

    def __init__(self):
        self.files = {}

    def said(self, name, *words):
        try:
            return getattr(self, name)(*words)
        except OSError as error:
            return errno.errorcode[error.errno]
        except KeyError:
            return "not open"

    def put(self, path, text, flags):
        fd = os.open(path, os.O_WRONLY | flags | os.O_NOFOLLOW, 0o640)
        try:
            return os.write(fd, text.encode())
        finally:
            os.close(fd)

    def read(self, path):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            return os.read(fd, 10000)
        finally:
            os.close(fd)

    def chmod(self, path, mode):
        before = os.lstat(path)
        if stat.S_ISLNK(before.st_mode):
            return "a link"
        os.chmod(path, mode)
        after = os.lstat(path)
        # Lower files with several names are parted, and directories are no one file.
        alone = stat.S_ISREG(before.st_mode) and before.st_nlink == 1
        return oct(after.st_mode), alone and before.st_ino == after.st_ino

    def execute(self, path):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return "no file"
        done = subprocess.run(["./" + path], capture_output=True)
        return done.returncode, done.stdout

    def attribute(self, path, value):
        if value is None:
            return os.removexattr(path, "user.test", follow_symlinks=False)
        return os.setxattr(path, "user.test", value, follow_symlinks=False)

    def open(self, slot, path, flags):
        if slot in self.files:
            os.close(self.files.pop(slot))
        self.files[slot] = os.open(path, os.O_NOFOLLOW | flags, 0o600)

    def close(self, slot):
        os.close(self.files.pop(slot))

    def pwrite(self, slot, text, offset):
        return os.pwrite(self.files[slot], text.encode(), offset)

    def pread(self, slot):
        return os.pread(self.files[slot], 10000, 0)

    def cut(self, slot, size):
        os.ftruncate(self.files[slot], size)

    def status(self, slot):
        found = os.fstat(self.files[slot])
        is_file = stat.S_ISREG(found.st_mode)
        return oct(found.st_mode), is_file and (found.st_size, found.st_nlink)

    def store(self, slot, text):
        size = os.fstat(self.files[slot]).st_size
        if size < len(text):
            return "short"
        with mmap.mmap(self.files[slot], size) as mapped:
            mapped[: len(text)] = text.encode()
            return mapped[:]

    def look(self, path):
        found = os.lstat(path)
        return oct(found.st_mode), found.st_nlink if stat.S_ISREG(found.st_mode) else 0

    def list(self, path):
        return sorted(os.listdir(path))

    def unlink(self, path):
        os.unlink(path)

    def mkdir(self, path):
        os.mkdir(path, 0o750)

    def rmdir(self, path):
        os.rmdir(path)

    def rename(self, old, new, flags):
        rename(old, new, flags)

    def symlink(self, target, path):
        os.symlink(target, path)

    def link(self, old, new):
        os.link(old, new, follow_symlinks=False)


def step(choose):
    path = lambda: "/".join(choose.choice(NAMES) for _ in range(choose.randint(1, 3)))
    one, two, slot, number = path(), path(), choose.randrange(SLOTS), choose.randrange(1000)
    text = f"written {number}"
    return choose.choice(
        [
            ("put", one, text, os.O_CREAT | os.O_TRUNC),
            ("put", one, text, os.O_CREAT | os.O_APPEND),
            ("put", one, text, os.O_CREAT | os.O_EXCL),
            ("put", one, text, 0),
            ("read", one),
            ("chmod", one, 0o600 + number % 0o200),
            ("execute", one),
            ("attribute", one, None if number % 3 == 0 else text.encode()),
            ("open", slot, one, os.O_RDONLY),
            ("open", slot, one, os.O_RDWR),
            ("open", slot, one, os.O_RDWR | os.O_CREAT),
            ("close", slot),
            ("pwrite", slot, text, number % 20),
            ("pread", slot),
            ("pread", slot),
            ("cut", slot, number % 30),
            ("status", slot),
            ("store", slot, text[:7]),
            ("look", one),
            ("list", one),
            ("unlink", one),
            ("unlink", one),
            ("mkdir", one),
            ("rmdir", one),
            ("rename", one, two, 0),
            ("rename", one, two, 0),
            ("rename", one, two, NO_REPLACE),
            ("rename", one, two, EXCHANGE),
            ("symlink", f"to {number}", one),
            ("link", one, two),
        ]
    )


def serve(asked, answer):
    worker = Worker()
    with os.fdopen(asked, "rb") as asked, os.fdopen(answer, "wb") as answer:
        while words := pickle.load(asked):
            pickle.dump(worker.said(*words), answer)
            answer.flush()


def steps(directory, seed):
    os.chdir(directory)
    os.umask(0)
    choose, workers = random.Random(int(seed)), []
    for _ in range(2):
        (asked, ask), (hear, answer) = os.pipe(), os.pipe()
        if os.fork() == 0:
            serve(asked, answer)
            os._exit(0)
        workers.append((os.fdopen(ask, "wb"), os.fdopen(hear, "rb")))
    for _ in range(STEPS):
        which, words = choose.randrange(2), step(choose)
        ask, hear = workers[which]
        pickle.dump(words, ask)
        ask.flush()
        print(which, words, pickle.load(hear), flush=True)
    for ask, _ in workers:
        pickle.dump(None, ask)
        ask.flush()
        os.wait()


def walk(directory):
    for name in sorted(os.listdir(directory)):
        path = f"{directory}/{name}"
        found = os.lstat(path)
        yield path, found
        if stat.S_ISDIR(found.st_mode):
            yield from walk(path)


def attribute(path, name):
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return None


def tree(directory):
    os.chdir(directory)
    for path, found in walk("."):
        said = [path, oct(found.st_mode), attribute(path, "user.test")]
        if stat.S_ISREG(found.st_mode):
            said += [found.st_nlink, Worker().read(path)]
        elif stat.S_ISLNK(found.st_mode):
            said.append(os.readlink(path))
        print(*said)


def disk(directory, prefix):
    os.chdir(directory)
    for path, found in walk("."):
        said = [path, oct(found.st_mode)]
        if stat.S_ISREG(found.st_mode):
            said += [found.st_nlink, open(path, "rb").read()]
        elif stat.S_ISCHR(found.st_mode):
            said = [path, "device", found.st_rdev]
        if stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode):
            for mark in ["opaque", "redirect", "impure", "metacopy"]:
                said.append(attribute(path, f"{prefix}.overlay.{mark}"))
            # Where the kernel has no origin (of files with several names, and for ordinary users
            # an empty one) there is one of ours.
            origin = attribute(path, f"{prefix}.overlay.origin") or b""
            said.append(prefix == "trusted" and origin.startswith(b"\0\xfb"))
        print(*said)


globals()[sys.argv[1]](*sys.argv[2:])
