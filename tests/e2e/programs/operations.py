"""What the kernel hands to a file system besides reads and writes: every result is printed."""

import ctypes
import errno
import mmap
import os
import subprocess

libc = ctypes.CDLL(None, use_errno=True)


def said(what, run):
    try:
        print(what, run())
    except OSError as error:
        print(what, errno.errorcode[error.errno])


def allocate(file, mode, offset, length):
    if libc.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), "")
    found = os.fstat(file)
    return found.st_size, found.st_blocks > 0


file = os.open("f", os.O_CREAT | os.O_RDWR, 0o644)
os.pwrite(file, b"a" * 4096, 0)
os.pwrite(file, b"b" * 4096, 1 << 20)
for whence in os.SEEK_DATA, os.SEEK_HOLE:
    for at in 0, 4096, 1 << 20, (1 << 20) + 4096, -1:
        said(f"seek {whence} {at}", lambda: os.lseek(file, at, whence))
# FUSE hands on no other modes (`fuse_file_fallocate`, fs/fuse/file.c).
KEEP, PUNCH, ZERO, UNSHARE = 1, 2, 16, 64
for mode in 0, KEEP, PUNCH, PUNCH | KEEP, ZERO, ZERO | KEEP, UNSHARE, 1 << 20:
    said(f"allocate {mode}", lambda: allocate(file, mode, 8192, 8192))
said("allocate beyond", lambda: allocate(file, 0, 3 << 20, 4096))
said("allocate nothing", lambda: allocate(file, 0, 0, 0))
said("content", lambda: sum(os.pread(file, 4 << 20, 0)))
other = os.open("g", os.O_CREAT | os.O_RDWR, 0o600)
said("copy", lambda: os.copy_file_range(file, other, 4096, 0, 100))
said("copy on", lambda: os.copy_file_range(file, other, 1 << 21, (1 << 20) - 10, 5))
said("copy beyond", lambda: os.copy_file_range(file, other, 10, 1 << 30, 0))
said("copied", lambda: (os.fstat(other).st_size, sum(os.pread(other, 1 << 20, 0))))
said("send", lambda: os.sendfile(other, file, 0, 9999))
ends = os.pipe()
said("splice out", lambda: os.splice(file, ends[1], 4096, offset_src=0))
said("splice in", lambda: os.splice(ends[0], other, 4096, offset_dst=50000))
said("spliced", lambda: (os.fstat(other).st_size, sum(os.pread(other, 1 << 20, 50000))))
# Stored into a hole, and not yet brought to the file system when somebody skips holes.
sparse = os.open("sparse", os.O_CREAT | os.O_RDWR, 0o644)
os.ftruncate(sparse, 1 << 20)
said("all a hole", lambda: os.lseek(sparse, 0, os.SEEK_DATA))
pages = mmap.mmap(sparse, 1 << 20)
pages[300000:300006] = b"stored"
subprocess.run(["cp", "sparse", "copied"], check=True)
print("stored", open("copied", "rb").read() == bytes(300000) + b"stored" + bytes((1 << 20) - 300006))
said("behind the end", lambda: os.lseek(sparse, 1 << 20, os.SEEK_DATA))
pages.close()
unnamed = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o640)
os.write(unnamed, b"unnamed")
said("links", lambda: os.fstat(unnamed).st_nlink)
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400
link = libc.linkat(AT_FDCWD, f"/proc/self/fd/{unnamed}".encode(), AT_FDCWD, b"named", AT_SYMLINK_FOLLOW)
print("link", link, os.fstat(unnamed).st_nlink, open("named").read(), oct(os.stat("named").st_mode))
never = os.open(".", os.O_TMPFILE | os.O_EXCL | os.O_RDWR, 0o640)
link = libc.linkat(AT_FDCWD, f"/proc/self/fd/{never}".encode(), AT_FDCWD, b"never", AT_SYMLINK_FOLLOW)
print("never", link, errno.errorcode[ctypes.get_errno()])
for path in "f", "named":
    buffer = (ctypes.c_uint8 * 256)()
    libc.statx(AT_FDCWD, path.encode(), 0, 0xFFF, buffer)
    words = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_uint32))
    print("statx", hex(words[0] & 0xFFF), abs(ctypes.cast(buffer, ctypes.POINTER(ctypes.c_int64))[10] - os.stat(path).st_mtime) < 9999)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
os.fsync(file), os.fdatasync(other), os.sync()
print(sorted(os.listdir(".")))
