"""The class that an author extends."""

from __future__ import annotations

import dataclasses
import errno
import os
from typing import Any, Iterable, Mapping, Sequence, Tuple, Union


@dataclasses.dataclass(frozen=True)
class Mount:
    """What is mounted."""

    #: As the user wrote it; an absolute path where it names a file that is there.
    source: str
    #: An absolute path.
    target: str
    #: The mount's options; those without a value have "".
    options: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Caller:
    """Who asks."""

    uid: int
    gid: int
    #: The process; 0: it is not known.
    pid: int
    umask: int


class FileSystem:
    """A file system, by the names of `os`.

    A method that a class does not have is refused to programs, as a file system refuses that has no
    such thing. Methods may be `async`: they run on one event loop, in a thread of its own.

    Paths are relative to the mount, without a slash at either end; "" is the root. Bytes of a name
    that are not UTF-8 are the characters of `os.fsdecode`. An `OSError` is the program's error; every
    other exception is EIO, its trace goes to standard error. Calls come from several threads.
    """

    #: Seconds for which programs believe attributes and names without asking again.
    timeout: float = 1.0
    #: Seconds for which they believe that a name is not there.
    negative_timeout: float = 0.0
    #: Each read and write comes here, whatever is cached.
    direct_io: bool = False
    #: What was read once is believed until this file system changes it.
    keep_cache: bool = False

    #: `stat` gives inode numbers (st_ino): stable, equal for hard links only. Else they are made up.
    inodes: bool = False

    def init(self, mount: Mount) -> None:
        """The mount begins; an exception ends it with its message."""

    def destroy(self) -> None:
        """The mount ends; not called when the process is killed."""

    def stat(self, path: str) -> Union[os.stat_result, Mapping[str, Any], Any]:
        """Attributes, links not followed: an `os.stat_result`, or a mapping or an object with the
        same names (st_mode, st_size, st_mtime_ns or st_mtime, …); what is missing is 0."""
        raise OSError(errno.ENOSYS, path)

    # The following are found by their names; they stand here for who reads.
    #
    # fstat(file), listdir(path) -> names, or (name, type) or (name, type, inode)
    # open(path, flags, mode=0) -> anything, which the others get as `file`; close(file)
    # pread(file, size, offset) -> bytes; preadv(file, buffer, offset) -> how many were put into it
    # pwrite(file, data: memoryview, offset) -> how many were written
    # fsync(file, data_only), ftruncate(file, size), flush(file), fallocate(file, mode, offset, size)
    # lseek(file, offset, whence) for SEEK_DATA and SEEK_HOLE
    # truncate(path, size), readlink(path), unlink(path), mkdir(path, mode), rmdir(path)
    # chown(path, uid, gid), chmod(path, mode), rename(source, target, flags)
    # access(path, mode): without it modes and owners decide who may do what
    # utime(path, ns=(access, modification)), symlink(target, path), link(path, name)
    # mknod(path, mode, device), statvfs() -> os.statvfs_result or a mapping
    # getxattr(path, name) -> bytes, setxattr(path, name, value, flags), listxattr(path) -> names
    # removexattr(path, name)


Entry = Union[str, Tuple[str, int], Tuple[str, int, int]]
Names = Iterable[Entry]


def caller() -> Caller:
    """Who asks: valid in a method that is not `async`."""
    from . import _host

    context = _host.context()
    return Caller(context.uid, context.gid, context.pid, context.umask)


def run(system: FileSystem, source: str, target: str, options: Sequence[str] = ()) -> int:
    """Serves `system` at `target` until it is unmounted; what the process is to end with."""
    from . import _host

    return _host.serve(system, source, target, list(options), judged=True)
