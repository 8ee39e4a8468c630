"""mfusepy's names, for programs that import it: `python3 -m culvert --as mfusepy PROGRAM …`.

There are Operations with mfusepy's methods (paths with a leading slash, attributes as mappings,
file handles as numbers), FUSE, FuseOSError, LoggingMixIn and fuse_get_context. Not there: ioctl,
poll, bmap, locks, raw_fi (an error), modules of libfuse, and options that are not of mounts, such as
direct_io or entry_timeout (an error). As with libfuse, FUSE goes to the background once it is
mounted unless foreground or debug says otherwise: the process that called it ends there.
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from typing import Any, Dict, Tuple

from . import _host
from .filesystem import FileSystem, Mount

ENOTSUP = errno.ENOTSUP
fuse_version_major, fuse_version_minor = 3, 14


class FuseOSError(OSError):
    """An error of a call."""

    def __init__(self, number: int) -> None:
        super().__init__(number, os.strerror(number))


def overrides(function: Any) -> Any:
    """Marks a method that stands for one of Operations."""
    return function


def log_callback(function: Any) -> Any:
    """Marks a method whose calls may be logged."""
    return function


def fuse_get_context() -> Tuple[int, int, int]:
    """Who asks: uid, gid, pid."""
    context = _host.context()
    return context.uid, context.gid, context.pid


def fuse_exit() -> None:
    """Ends the process as an unmount does."""
    os.kill(os.getpid(), 15)


class Operations:
    """What a file system may have; each method can be overridden."""

    use_ns = False

    def __call__(self, operation: str, *arguments: Any) -> Any:
        if not hasattr(self, operation):
            raise FuseOSError(errno.EFAULT)
        return getattr(self, operation)(*arguments)

    def init(self, path: str) -> None:
        """The mount begins."""

    def destroy(self, path: str) -> None:
        """The mount ends."""

    def access(self, path: str, amode: int) -> int:
        return 0

    def getattr(self, path: str, fh: Any = None) -> Dict[str, Any]:
        if path != "/":
            raise FuseOSError(errno.ENOENT)
        return {"st_mode": 0o40755, "st_nlink": 2}

    def readdir(self, path: str, fh: Any) -> Any:
        return [".", ".."]

    def open(self, path: str, flags: int) -> int:
        return 0

    def opendir(self, path: str) -> int:
        return 0

    def release(self, path: str, fh: Any) -> int:
        return 0

    def releasedir(self, path: str, fh: Any) -> int:
        return 0

    def flush(self, path: str, fh: Any) -> int:
        return 0

    def fsync(self, path: str, datasync: int, fh: Any) -> int:
        return 0

    def statfs(self, path: str) -> Dict[str, int]:
        return {}

    def listxattr(self, path: str) -> Any:
        return []


def _missing(name: str, number: int) -> Any:
    def method(self: Any, *_: Any, **__: Any) -> Any:
        raise FuseOSError(number)
    method.__name__ = name
    method.missing = True
    return method


for _name in ("chmod", "chown", "create", "link", "mkdir", "mknod", "rename", "rmdir", "symlink",
              "truncate", "unlink", "write"):
    setattr(Operations, _name, _missing(_name, errno.EROFS))
for _name, _number in (("readlink", errno.ENOENT), ("read", errno.EIO), ("utimens", errno.ENOSYS),
                       ("getxattr", errno.ENOTSUP), ("setxattr", errno.ENOTSUP),
                       ("removexattr", errno.ENOTSUP), ("lseek", errno.ENOSYS)):
    setattr(Operations, _name, _missing(_name, _number))


class LoggingMixIn:
    """Logs each call at level DEBUG."""

    log = logging.getLogger("fuse.log-mixin")

    def __call__(self, operation: str, path: str, *arguments: Any) -> Any:
        self.log.debug("-> %s %s %r", operation, path, arguments)
        result: Any = "[Unhandled Exception]"
        try:
            result = getattr(self, operation)(path, *arguments)
            return result
        except OSError as error:
            result = str(error)
            raise
        finally:
            self.log.debug("<- %s %r", operation, result)


class _System(FileSystem):
    """Operations as a FileSystem."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations

    def init(self, mount: Mount) -> None:
        self.operations("init", "/")

    def destroy(self) -> None:
        self.operations("destroy", "/")

    def attributes(self, found: Dict[str, Any]) -> Dict[str, Any]:
        found = dict(found)
        if self.operations.use_ns:
            for name in ("st_atime", "st_mtime", "st_ctime"):
                if name in found:
                    found[name + "_ns"] = found.pop(name)
        return found

    def stat(self, path: str) -> Dict[str, Any]:
        return self.attributes(self.operations("getattr", "/" + path, None))

    def fstat(self, file: _host.Opened) -> Dict[str, Any]:
        return self.attributes(self.operations("getattr", "/" + file.path, file.handle))

    def listdir(self, path: str) -> Any:
        path = "/" + path
        handle = self.operations("opendir", path)
        try:
            for entry in self.operations("readdir", path, handle):
                if isinstance(entry, (str, bytes)):
                    yield entry
                else:
                    attributes = entry[1] or {}
                    mode = attributes if isinstance(attributes, int) else attributes.get("st_mode", 0)
                    yield entry[0], mode
        finally:
            self.operations("releasedir", path, handle)

    def open(self, path: str, flags: int, mode: int = 0) -> _host.Opened:
        if flags & os.O_CREAT:
            return _host.Opened(path, self.operations("create", "/" + path, mode))
        return _host.Opened(path, self.operations("open", "/" + path, flags) or 0)

    def close(self, file: _host.Opened) -> None:
        self.operations("release", "/" + file.path, file.handle)

    def pread(self, file: _host.Opened, size: int, offset: int) -> bytes:
        return self.operations("read", "/" + file.path, size, offset, file.handle)

    def pwrite(self, file: _host.Opened, data: memoryview, offset: int) -> int:
        return self.operations("write", "/" + file.path, bytes(data), offset, file.handle)

    def flush(self, file: _host.Opened) -> None:
        self.operations("flush", "/" + file.path, file.handle)

    def fsync(self, file: _host.Opened, data_only: bool) -> None:
        self.operations("fsync", "/" + file.path, int(data_only), file.handle)

    def truncate(self, path: str, size: int) -> None:
        self.operations("truncate", "/" + path, size)

    def ftruncate(self, file: _host.Opened, size: int) -> None:
        self.operations("truncate", "/" + file.path, size, file.handle)

    def readlink(self, path: str) -> str:
        return self.operations("readlink", "/" + path)

    def unlink(self, path: str) -> None:
        self.operations("unlink", "/" + path)

    def mkdir(self, path: str, mode: int) -> None:
        self.operations("mkdir", "/" + path, mode)

    def rmdir(self, path: str) -> None:
        self.operations("rmdir", "/" + path)

    def mknod(self, path: str, mode: int, device: int) -> None:
        self.operations("mknod", "/" + path, mode, device)

    def chown(self, path: str, uid: int, gid: int) -> None:
        self.operations("chown", "/" + path, uid, gid)

    def chmod(self, path: str, mode: int) -> None:
        self.operations("chmod", "/" + path, mode)

    def access(self, path: str, mode: int) -> None:
        if self.operations("access", "/" + path, mode):
            raise FuseOSError(errno.EACCES)

    def rename(self, source: str, target: str, flags: int) -> None:
        if flags:
            raise FuseOSError(errno.EINVAL)
        self.operations("rename", "/" + source, "/" + target)

    def utime(self, path: str, ns: Tuple[int, int]) -> None:
        times = ns if self.operations.use_ns else tuple(one / 1e9 for one in ns)
        self.operations("utimens", "/" + path, times)

    def symlink(self, target: str, path: str) -> None:
        # mfusepy's order: the link, then where it leads.
        self.operations("symlink", "/" + path, target)

    def link(self, path: str, name: str) -> None:
        self.operations("link", "/" + name, "/" + path)

    def statvfs(self) -> Dict[str, int]:
        return self.operations("statfs", "/")

    def getxattr(self, path: str, name: str) -> bytes:
        return self.operations("getxattr", "/" + path, name)

    def setxattr(self, path: str, name: str, value: bytes, flags: int) -> None:
        self.operations("setxattr", "/" + path, name, value, flags)

    def listxattr(self, path: str) -> Any:
        return self.operations("listxattr", "/" + path)

    def removexattr(self, path: str, name: str) -> None:
        self.operations("removexattr", "/" + path, name)


#: Methods of a FileSystem, by those of Operations without which they are not there.
_NEEDS = {"pwrite": "write", "truncate": "truncate", "ftruncate": "truncate", "unlink": "unlink",
          "mkdir": "mkdir", "rmdir": "rmdir", "mknod": "mknod", "chown": "chown", "chmod": "chmod",
          "rename": "rename", "utime": "utimens", "symlink": "symlink", "link": "link",
          "getxattr": "getxattr", "setxattr": "setxattr", "removexattr": "removexattr",
          "readlink": "readlink", "pread": "read"}


class FUSE:
    """Serves `operations` at `mountpoint`; comes back when the mount ends."""

    def __init__(self, operations: Operations, mountpoint: str, raw_fi: bool = False,
                 encoding: str = "utf-8", **options: Any) -> None:
        if raw_fi:
            raise NotImplementedError("raw_fi: structures of libfuse's are not handed out")
        foreground = options.pop("foreground", False)
        # As libfuse's -d.
        foreground = bool(options.pop("debug", False)) or foreground
        nothreads = options.pop("nothreads", False)
        source = str(options.pop("fsname", type(operations).__name__))
        unknown = {name for name, value in options.items() if value not in (False, None)}
        unknown -= _host.PASSED
        if unknown:
            raise NotImplementedError("options that Culvert has not: " + ", ".join(sorted(unknown)))
        words = []
        for name, value in options.items():
            if value is True:
                words.append(name)
            elif value not in (False, None):
                words.append(f"{name}={value}")
        system = _System(operations)
        kind = type(operations)
        for method, needs in _NEEDS.items():
            if getattr(getattr(kind, needs, None), "missing", not hasattr(kind, needs)):
                setattr(system, method, None)
        def serve(mounted: Any = None) -> int:
            return _host.serve(system, source, os.path.abspath(mountpoint), words,
                               one_at_a_time=bool(nothreads), mounted=mounted)
        status = serve() if foreground else _host.in_background(serve)
        if status:
            raise RuntimeError(status)


sys.modules.setdefault("mfusepy", sys.modules[__name__])
