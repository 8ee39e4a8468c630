"""A store of keys and values, as files in one directory; extended attributes say more of a key."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from typing import Any, Dict, List, Tuple

import culvert

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2


class Value:
    """A value; who has it open keeps it when its key is gone."""

    def __init__(self, mode: int) -> None:
        self.mode, self.data = mode, bytearray()
        self.uid, self.gid = os.geteuid(), os.getegid()
        self.atime = self.mtime = self.ctime = time.time_ns()
        self.attributes: Dict[str, bytes] = {}

    def stat(self) -> Dict[str, int]:
        return {"st_mode": self.mode, "st_size": len(self.data), "st_uid": self.uid,
                "st_gid": self.gid, "st_ino": id(self), "st_atime_ns": self.atime,
                "st_mtime_ns": self.mtime, "st_ctime_ns": self.ctime}

    def resize(self, size: int) -> None:
        if size < len(self.data):
            del self.data[size:]
        else:
            self.data.extend(bytes(size - len(self.data)))
        self.mtime = self.ctime = time.time_ns()


class KeyValue(culvert.FileSystem):
    """The store."""

    inodes = True

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.root = Value(stat.S_IFDIR | 0o755)
        self.values: Dict[str, Value] = {}

    def find(self, path: str) -> Value:
        found = self.values.get(path) if path else self.root
        if found is None:
            raise OSError(errno.ENOTDIR if "/" in path else errno.ENOENT, path)
        return found

    def stat(self, path: str) -> Dict[str, int]:
        return self.find(path).stat()

    def fstat(self, file: Value) -> Dict[str, int]:
        return file.stat()

    def listdir(self, path: str) -> List[Tuple[str, int, int]]:
        if path:
            raise OSError(errno.ENOTDIR, path)
        with self.lock:
            return [(name, stat.S_IFREG, id(value)) for name, value in self.values.items()]

    def open(self, path: str, flags: int, mode: int = 0) -> Value:
        with self.lock:
            if flags & os.O_CREAT and path not in self.values:
                self.values[path] = Value(stat.S_IFREG | mode)
                self.root.mtime = self.root.ctime = time.time_ns()
            value = self.find(path)
            if flags & os.O_TRUNC:
                value.resize(0)
            return value

    def preadv(self, file: Value, buffer: memoryview, offset: int) -> int:
        with self.lock:
            data = file.data[offset:offset + len(buffer)]
            buffer[:len(data)] = data
            return len(data)

    def pwrite(self, file: Value, data: memoryview, offset: int) -> int:
        with self.lock:
            if offset + len(data) > len(file.data):
                file.resize(offset + len(data))
            file.data[offset:offset + len(data)] = data
            file.mtime = file.ctime = time.time_ns()
            return len(data)

    def ftruncate(self, file: Value, size: int) -> None:
        with self.lock:
            file.resize(size)

    def truncate(self, path: str, size: int) -> None:
        self.ftruncate(self.find(path), size)

    def unlink(self, path: str) -> None:
        with self.lock:
            self.find(path)
            del self.values[path]
            self.root.mtime = self.root.ctime = time.time_ns()

    def rename(self, source: str, target: str, flags: int) -> None:
        with self.lock:
            value, other = self.find(source), self.values.get(target)
            if flags == RENAME_EXCHANGE:
                self.values[source] = self.find(target)
            elif flags == RENAME_NOREPLACE and other is not None:
                raise OSError(errno.EEXIST, target)
            elif flags > RENAME_EXCHANGE:
                raise OSError(errno.EINVAL, "flags")
            elif other is not value:
                del self.values[source]
            self.values[target] = value
            value.ctime = self.root.mtime = self.root.ctime = time.time_ns()

    def chmod(self, path: str, mode: int) -> None:
        value = self.find(path)
        value.mode, value.ctime = stat.S_IFMT(value.mode) | mode, time.time_ns()

    def chown(self, path: str, uid: int, gid: int) -> None:
        value = self.find(path)
        value.uid = value.uid if uid == -1 else uid
        value.gid = value.gid if gid == -1 else gid
        value.ctime = time.time_ns()

    def utime(self, path: str, ns: Tuple[int, int]) -> None:
        value = self.find(path)
        (value.atime, value.mtime), value.ctime = ns, time.time_ns()

    def fsync(self, file: Value, data_only: bool) -> None:
        """Values live as long as the mount, as a file system in memory has them."""

    def statvfs(self) -> Dict[str, Any]:
        return {"f_bsize": 4096, "f_blocks": 1 << 20, "f_bfree": 1 << 20, "f_bavail": 1 << 20}

    async def getxattr(self, path: str, name: str) -> bytes:
        value = self.find(path).attributes.get(name)
        if value is None:
            raise OSError(errno.ENODATA, name)
        return value

    def setxattr(self, path: str, name: str, value: bytes, flags: int) -> None:
        attributes = self.find(path).attributes
        if flags & os.XATTR_CREATE and name in attributes:
            raise OSError(errno.EEXIST, name)
        if flags & os.XATTR_REPLACE and name not in attributes:
            raise OSError(errno.ENODATA, name)
        attributes[name] = value
        self.find(path).ctime = time.time_ns()

    def listxattr(self, path: str) -> List[str]:
        return list(self.find(path).attributes)

    def removexattr(self, path: str, name: str) -> None:
        if self.find(path).attributes.pop(name, None) is None:
            raise OSError(errno.ENODATA, name)
        self.find(path).ctime = time.time_ns()
