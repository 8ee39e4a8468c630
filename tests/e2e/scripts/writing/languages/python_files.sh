cat > t.py << 'END'
import fcntl, mmap, os, shutil, tempfile, threading, multiprocessing

os.chdir(os.environ["M"])
print(os.getcwd() == os.environ["M"])
with tempfile.TemporaryFile(dir=".") as f:
    f.write(b"unnamed")
    f.seek(0)
    print(f.read(), os.fstat(f.fileno()).st_nlink)
with tempfile.NamedTemporaryFile(dir=".") as f:
    print(os.stat(f.name).st_size, oct(os.stat(f.name).st_mode))
with tempfile.TemporaryDirectory(dir=".") as d:
    open(d + "/x", "w").write("x")
    shutil.copytree(d, "copy")
    shutil.move("copy", "moved")
    print(os.listdir("moved"))
    shutil.rmtree("moved")
f = os.open("f", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
print(
    os.write(f, b"0123456789"),
    os.pread(f, 3, 4),
    os.pwrite(f, b"ab", 20),
    os.lseek(f, 0, os.SEEK_CUR),
    os.fstat(f).st_size,
)
os.ftruncate(f, 15)
os.posix_fallocate(f, 10, 20)
os.fsync(f)
os.fdatasync(f)
print(
    os.preadv(f, [bytearray(2), bytearray(50)], 0),
    os.pwritev(f, [b"x", b"yz"], 1),
    os.copy_file_range(f, os.open("g", os.O_CREAT | os.O_WRONLY), 100, 0),
)
print(open("f", "rb").read(), open("g", "rb").read())
print(os.sendfile(os.open("h", os.O_CREAT | os.O_WRONLY), f, 2, 5), open("h").read())
p = os.pipe()
print(
    os.splice(f, p[1], 8, offset_src=0),
    os.read(p[0], 100),
    os.write(p[1], b"spliced"),
    os.splice(p[0], os.open("i", os.O_CREAT | os.O_WRONLY), 100),
    open("i").read(),
)
m = mmap.mmap(f, 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
print(m[:5], len(m))
m.close()
os.rename("f", "j")
os.unlink("j")
print(os.pread(f, 5, 0), os.fstat(f).st_nlink, os.path.exists("j"))
d = os.open(".", os.O_RDONLY)
os.mkdir("k", dir_fd=d)
os.symlink("g", "l", dir_fd=d)
os.link("g", "n", src_dir_fd=d, dst_dir_fd=d)
print(
    os.readlink("l", dir_fd=d),
    os.stat("n", dir_fd=d).st_nlink,
    sorted(os.listdir(d)),
    os.access("k", os.X_OK, dir_fd=d),
)
os.rename("n", "k/n", src_dir_fd=d, dst_dir_fd=d)
os.utime("g", ns=(1, 10**18 + 1), dir_fd=d)
print(
    os.stat("g").st_mtime_ns,
    os.scandir("k").__next__().is_file(),
    os.statvfs(".").f_namemax,
    os.pathconf(".", "PC_NAME_MAX"),
)
os.replace("g", "h")
os.removedirs if 0 else os.unlink("k/n")
os.rmdir("k")


def append(n):
    with open("log", "a") as f:
        for i in range(200):
            f.write(f"{n} {i}\n")
            f.flush()


ts = [threading.Thread(target=append, args=(n,)) for n in range(4)]
[t.start() for t in ts]
[t.join() for t in ts]
ps = (
    [
        multiprocessing.get_context(w).Process(target=append, args=(n,))
        for w, n in (("fork", 8), ("spawn", 9))
    ]
    if 0
    else [multiprocessing.get_context("fork").Process(target=append, args=(n,)) for n in (8, 9)]
)
[p.start() for p in ps]
[p.join() for p in ps]
lines = open("log").read().splitlines()
print(len(lines), len(set(lines)))
for lock in (fcntl.lockf, fcntl.flock):
    f = open("log", "r+")
    lock(f, fcntl.LOCK_EX)
    pid = os.fork()
    if pid == 0:
        try:
            lock(open("log", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
            os._exit(0)
        except OSError as e:
            os._exit(e.errno)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    lock(f, fcntl.LOCK_UN)
for call, *a in (
    (os.rmdir, "log"),
    (os.mkdir, "log"),
    (os.unlink, "none"),
    (os.open, "x" * 256, os.O_CREAT),
    (os.open, "y/" * 2500, 0),
    (os.rename, ".", "z"),
    (os.link, ".", "z"),
    (os.readlink, "log"),
    (os.truncate, "log", -1),
    (os.chdir, "log"),
    (os.symlink, "", "e"),
    (os.open, ".", os.O_WRONLY),
    (os.mkdir, ""),
    (os.chmod, "none", 0),
    (os.listdir, "log"),
):
    try:
        call(*a)
        print(call.__name__, "WORKED")
    except OSError as e:
        print(call.__name__, e.errno)
END
python3 t.py
rm -f log t.py
