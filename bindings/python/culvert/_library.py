"""libculvert_fuse.so by ctypes: structures and functions of fuse.h, version 31, for x86-64."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t,
                    c_uint, c_uint32, c_uint64, c_ulong, c_void_p)

VERSION = 31
NAME = "libculvert_fuse.so"


class Stat(Structure):
    """struct stat."""

    _fields_ = [(name, c_uint64) for name in ("dev", "ino", "nlink")]
    _fields_ += [(name, c_uint32) for name in ("mode", "uid", "gid", "pad")]
    _fields_ += [("rdev", c_uint64), ("size", c_int64), ("blksize", c_int64), ("blocks", c_int64)]
    _fields_ += [(name, c_int64) for name in
                 ("atime", "atime_ns", "mtime", "mtime_ns", "ctime", "ctime_ns")]
    _fields_ += [("unused", c_int64 * 3)]


class StatVfs(Structure):
    """struct statvfs."""

    _fields_ = [(name, c_uint64) for name in
                ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail", "fsid",
                 "flag", "namemax")]
    _fields_ += [("spare", c_int * 6)]


class FileInfo(Structure):
    """struct fuse_file_info."""

    DIRECT_IO = 1
    KEEP_CACHE = 2
    _fields_ = [("flags", c_int), ("writepage", c_int), ("bits", c_uint32),
                ("poll_events", c_uint32), ("fh_old", c_ulong), ("fh", c_uint64),
                ("lock_owner", c_uint64)]


class Config(Structure):
    """struct fuse_config."""

    _fields_ = [("set_gid", c_int), ("gid", c_uint), ("set_uid", c_int), ("uid", c_uint),
                ("set_mode", c_int), ("umask", c_uint), ("entry_timeout", c_double),
                ("negative_timeout", c_double), ("attr_timeout", c_double)]
    _fields_ += [(name, c_int) for name in
                 ("intr", "intr_signal", "remember", "hard_remove", "use_ino", "readdir_ino",
                  "direct_io", "kernel_cache", "auto_cache", "no_rofd_flush",
                  "ac_attr_timeout_set")]
    _fields_ += [("ac_attr_timeout", c_double), ("nullpath_ok", c_int),
                 ("parallel_direct_writes", c_int), ("show_help", c_int), ("modules", c_char_p),
                 ("debug", c_int)]


class Context(Structure):
    """struct fuse_context."""

    _fields_ = [("fuse", c_void_p), ("uid", c_uint), ("gid", c_uint), ("pid", c_int),
                ("private_data", c_void_p), ("umask", c_uint)]


Path = c_char_p
#: A FileInfo's address: what is made of it for each call is less than an object that points to it.
File = c_void_p


def handle(info: int) -> int:
    """The number of an open file."""
    return c_uint64.from_address(info + FileInfo.fh.offset).value


def flags(info: int) -> int:
    """Flags of open(2)."""
    return c_int.from_address(info).value


#: Memory at an address, as a memoryview: address, bytes, how.
memory = ctypes.pythonapi.PyMemoryView_FromMemory
memory.restype, memory.argtypes = ctypes.py_object, (c_void_p, ctypes.c_ssize_t, c_int)
READ_ONLY, WRITABLE = 0x100, 0x200
FILL = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_int64, c_int)


def _call(*arguments, result=c_int):
    return CFUNCTYPE(result, *arguments)


#: struct fuse_operations, in order; None: of no use here.
OPERATIONS = [
    ("getattr", _call(Path, c_void_p, File)),
    ("readlink", _call(Path, c_void_p, c_size_t)),
    ("reserved_getdir", None),
    ("mknod", _call(Path, c_uint, c_uint64)),
    ("mkdir", _call(Path, c_uint)),
    ("unlink", _call(Path)),
    ("rmdir", _call(Path)),
    ("symlink", _call(Path, Path)),
    ("rename", _call(Path, Path, c_uint)),
    ("link", _call(Path, Path)),
    ("chmod", _call(Path, c_uint, File)),
    ("chown", _call(Path, c_uint, c_uint, File)),
    ("truncate", _call(Path, c_int64, File)),
    ("reserved_utime", None),
    ("open", _call(Path, File)),
    ("read", _call(Path, c_void_p, c_size_t, c_int64, File)),
    ("write", _call(Path, c_void_p, c_size_t, c_int64, File)),
    ("statfs", _call(Path, POINTER(StatVfs))),
    ("flush", _call(Path, File)),
    ("release", _call(Path, File)),
    ("fsync", _call(Path, c_int, File)),
    ("setxattr", _call(Path, c_char_p, c_void_p, c_size_t, c_int)),
    ("getxattr", _call(Path, c_char_p, c_void_p, c_size_t)),
    ("listxattr", _call(Path, c_void_p, c_size_t)),
    ("removexattr", _call(Path, c_char_p)),
    ("opendir", None),
    ("readdir", _call(Path, c_void_p, FILL, c_int64, File, c_int)),
    ("releasedir", None),
    ("fsyncdir", None),
    ("init", _call(c_void_p, POINTER(Config), result=c_void_p)),
    ("destroy", _call(c_void_p, result=None)),
    ("access", _call(Path, c_int)),
    ("create", _call(Path, c_uint, File)),
    ("reserved_ftruncate", None),
    ("reserved_fgetattr", None),
    ("lock", None),
    ("utimens", _call(Path, POINTER(c_int64 * 4), File)),
    ("bmap", None),
    ("flags", None),
    ("ioctl", None),
    ("poll", None),
    ("write_buf", None),
    ("read_buf", None),
    ("flock", None),
    ("fallocate", _call(Path, c_int, c_int64, c_int64, File)),
    ("copy_file_range", None),
    ("lseek", _call(Path, c_int64, c_int, File, result=c_int64)),
]


class Operations(Structure):
    """struct fuse_operations."""

    _fields_ = [(name, kind or c_void_p) for name, kind in OPERATIONS]


def find() -> str:
    """Where the library is: CULVERT_FUSE_LIBRARY, beside this package, or as `culvert config` says."""
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.environ.get("CULVERT_FUSE_LIBRARY")]
    places += [os.path.join(here, *up, NAME) for up in ([], [".."], ["..", ".."])]
    for place in places:
        if place and os.path.exists(place):
            return os.path.realpath(place)
    command = shutil.which("culvert")
    if command:
        words = subprocess.run([command, "config", "--libs"], capture_output=True, text=True,
                               check=False).stdout.split()
        for word in words:
            if word.startswith("-L"):
                return os.path.join(word[2:], NAME)
    raise SystemExit(f"culvert: {NAME} is not to be found; install Culvert (scripts/install), or "
                     "name it by CULVERT_FUSE_LIBRARY")


def load() -> ctypes.CDLL:
    """The library."""
    library = ctypes.CDLL(find())
    library.culvert_fuse_main.argtypes = [c_int, POINTER(c_char_p), POINTER(Operations), c_size_t,
                                          c_void_p, c_int]
    library.culvert_fuse_fill_names.argtypes = [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t]
    context = library.fuse_get_context if hasattr(library, "fuse_get_context") else None
    if context is None:
        context = library.culvert_fuse_get_context
    context.restype = POINTER(Context)
    library.context = context
    return library
