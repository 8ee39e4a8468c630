"""What programs do to files, in two processes, over exec, by mappings and copies: prints what came
of it, the same on any file system. Argument: a directory."""
import mmap, os, subprocess, sys

if len(sys.argv) > 2:  # The second program, which inherits a descriptor.
    inherited = int(sys.argv[2])
    print("inherited", os.read(inherited, 6))
    os.write(inherited, b"-second-")
    with open(os.path.join(sys.argv[1], "dir/mapped"), "r+b") as file:
        with mmap.mmap(file.fileno(), 0) as mapped:
            print("sees", mapped[:5], mapped[70000:70004])
            mapped[5:9] = b"bbbb"
    os.rename(os.path.join(sys.argv[1], "dir/old"), os.path.join(sys.argv[1], "dir/new"))
    sys.exit(0)

top = sys.argv[1]
os.mkdir(f"{top}/dir")
for number in range(30):
    with open(f"{top}/dir/file{number}", "w") as file:
        file.write(f"{number}\n" * number)
open(f"{top}/dir/old", "w").close()
for number in range(0, 30, 3):
    os.unlink(f"{top}/dir/file{number}")
os.rename(f"{top}/dir/file1", f"{top}/dir/file2")
print(sorted(os.listdir(f"{top}/dir")))

with open(f"{top}/dir/mapped", "w+b") as file:
    file.truncate(100000)
    mapped = mmap.mmap(file.fileno(), 0)
    mapped[:5] = b"aaaaa"
    mapped[70000:70004] = b"far."
    mapped.flush()
descriptor = os.open(f"{top}/dir/shared", os.O_RDWR | os.O_CREAT, 0o644)
os.write(descriptor, b"first-rest")
os.lseek(descriptor, 0, os.SEEK_SET)
os.set_inheritable(descriptor, True)
sys.stdout.flush()
done = subprocess.run([sys.executable, __file__, top, str(descriptor)], pass_fds=[descriptor])
print("status", done.returncode, "offset", os.lseek(descriptor, 0, os.SEEK_CUR))
print("shared", os.pread(descriptor, 100, 0), "mapped", mapped[:10])
print(sorted(name for name in os.listdir(f"{top}/dir") if "file" not in name))

child = os.fork()
if child == 0:
    os.write(descriptor, b"child")
    with open(f"{top}/dir/by-child", "w") as file:
        file.write("child")
    os._exit(0)
os.waitpid(child, 0)
print("after fork", os.pread(descriptor, 100, 0), open(f"{top}/dir/by-child").read())

source = os.open(f"{top}/dir/mapped", os.O_RDONLY)
target = os.open(f"{top}/dir/copy", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
left = 50000
while left:
    copied = os.copy_file_range(source, target, left, 60000 - left if left == 50000 else None)
    if copied == 0:
        break
    left -= copied
print("copied", os.fstat(target).st_size, os.pread(target, 4, 0), os.pread(target, 4, 59999 - 10000))
os.ftruncate(target, 7)
print("size", os.stat(f"{top}/dir/copy").st_size)

held = os.open(f"{top}/dir/by-child", os.O_RDWR)
os.unlink(f"{top}/dir/by-child")
os.write(held, b"CH")
print("unlinked", os.pread(held, 10, 0), os.fstat(held).st_nlink)
for path in ("dir/none", "dir/old"):
    try:
        os.stat(f"{top}/{path}")
    except OSError as error:
        print(path, error.errno)
