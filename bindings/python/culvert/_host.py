"""From calls of libfuse's interface to methods of a FileSystem."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import os
import signal
import stat as modes
import struct
import sys
import threading
import traceback
import types
from typing import Any, Callable, Dict, Mapping, Optional

from . import _library
from .filesystem import FileSystem, Mount

#: What may be as long as a path, or an attribute's value.
ATTRIBUTE = 65536
#: Flags of a descriptor's: the caller keeps them.
NOT_OURS = os.O_EXCL | os.O_NOCTTY
#: The inode of a name whose inode is not told.
UNKNOWN = 0xFFFFFFFF
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2

_loaded: Optional[ctypes.CDLL] = None


def context() -> _library.Context:
    """Who asks, for the length of a call."""
    assert _loaded is not None, "no call is being served"
    return _loaded.context().contents


class _Threads:
    """Keeps what Python has for each of the library's threads until the thread ends: a call would
    make it and free it again, with memory of the kernel's.

    What ends it are functions in C, one for each key of pthread_key_create(3), in the keys' order:
    a function of ours would need what is being freed."""

    def __init__(self) -> None:
        libc, python = ctypes.CDLL(None), ctypes.pythonapi
        self.keys = []
        for end in (python.PyEval_RestoreThread, python.PyThreadState_Clear,
                    python.PyThreadState_DeleteCurrent):
            key = ctypes.c_uint()
            if libc.pthread_key_create(ctypes.byref(key), ctypes.cast(end, ctypes.c_void_p)):
                raise OSError(errno.EAGAIN, "no key for the data of threads")
            self.keys.append(key.value)
        self.set = libc.pthread_setspecific
        self.set.argtypes = [ctypes.c_uint, ctypes.c_void_p]
        self.state = python.PyThreadState_Get
        self.state.restype = ctypes.c_void_p
        self.local = threading.local()
        # The thread that serves is Python's own.
        self.local.kept = True

    def keep(self) -> None:
        """Of this thread, in which a call of the library's is."""
        self.local.kept = True
        ctypes.pythonapi.PyGILState_Ensure()
        state = self.state()
        for key in self.keys:
            self.set(key, state)


class _Loop:
    """One event loop in a thread of its own, for methods that are `async`."""

    def __init__(self) -> None:
        self.loop: Optional[asyncio.AbstractEventLoop] = None
        self.lock = threading.Lock()

    def wait(self, coroutine: Any) -> Any:
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(target=self.loop.run_forever, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(awaited(coroutine), self.loop).result()


async def collected(names: Any) -> list:
    """All that an asynchronous generator gives."""
    return [one async for one in names]


async def awaited(work: Any) -> Any:
    """What `work` gives, which need not be a coroutine."""
    return await work


class Opened:
    """An open file that is known by its path, as it is now."""

    __slots__ = ("path", "handle")

    def __init__(self, path: str, handle: Any = None) -> None:
        self.path, self.handle = path, handle


class Host:
    """The functions of struct fuse_operations for one file system."""

    def __init__(self, system: FileSystem, mount: Mount) -> None:
        self.system, self.mount = system, mount
        self.loop, self.threads = _Loop(), _Threads()
        self.methods: Dict[str, Callable[..., Any]] = {}
        self.files: Dict[int, Any] = {}
        self.next = 1
        self.free: list = []
        self.lock = threading.Lock()
        #: Called once the mount is there.
        self.mounted: Optional[Callable[[], None]] = None
        self.operations = _library.Operations()
        self.keep = []
        has = self.has
        self.has_fstat = has("fstat")
        if has("preadv"):
            self.read_into = self.method("preadv")
        elif has("pread"):
            pread = self.method("pread")

            def read_into(file: Any, buffer: memoryview, offset: int) -> int:
                data = pread(file, len(buffer), offset)
                buffer[:len(data)] = data
                return len(data)
            self.read_into = read_into
        else:
            self.read_into = None
        names = {
            "getattr": True, "init": True, "destroy": True, "open": True, "release": True,
            "readdir": has("listdir"), "read": self.read_into is not None, "write": has("pwrite"),
            "create": has("open") and has("pwrite"), "statfs": has("statvfs"),
            "utimens": has("utime"), "truncate": has("truncate") or has("ftruncate"),
        }
        for name, kind in _library.OPERATIONS:
            if kind is None or not names.get(name, has(name)):
                continue
            function = kind(self.guarded(name, getattr(self, name)))
            self.keep.append(function)
            setattr(self.operations, name, function)

    def has(self, name: str) -> bool:
        return callable(getattr(self.system, name, None))

    def method(self, name: str) -> Callable[..., Any]:
        """The author's method, whose answer is waited for where it is `async`."""
        known = self.methods.get(name)
        if known is not None:
            return known
        method = getattr(self.system, name)

        def call(*arguments: Any, **words: Any) -> Any:
            found = method(*arguments, **words)
            kind = found.__class__
            if kind is types.AsyncGeneratorType:
                found = collected(found)
            elif kind is not types.CoroutineType and not hasattr(kind, "__await__"):
                return found
            return self.loop.wait(found)
        self.methods[name] = call
        return call

    def guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose exceptions are numbers: none may reach C."""
        if name in ("init", "destroy"):
            return function

        keep, local = self.threads.keep, self.threads.local

        def call(*arguments: Any) -> int:
            try:
                if not hasattr(local, "kept"):
                    keep()
                return function(*arguments) or 0
            except OSError as error:
                return -(error.errno or errno.EIO)
            except NotImplementedError:
                return -errno.ENOSYS
            except MemoryError:
                return -errno.ENOMEM
            except BaseException:
                traceback.print_exc()
                return -errno.EIO
        return call

    @staticmethod
    def path(path: bytes) -> str:
        return path[1:].decode("utf-8", "surrogateescape")

    # Open files, by number.

    def add(self, file: Any) -> int:
        with self.lock:
            if self.free:
                number = self.free.pop()
            else:
                number = self.next
                self.next += 1
            self.files[number] = file
        return number

    def file(self, path: Optional[bytes], info: Any) -> Any:
        """The open file, which knows its path of now if it is known by that."""
        found = self.files[_library.handle(info)]
        if found.__class__ is Opened and path is not None:
            found.path = self.path(path)
        return found

    # The functions.

    def init(self, _connection: int, config: Any) -> Optional[int]:
        config = config.contents
        config.use_ino = int(self.system.inodes)
        config.nullpath_ok = 0
        config.entry_timeout = config.attr_timeout = self.system.timeout
        config.negative_timeout = self.system.negative_timeout
        if self.mounted:
            self.mounted()
        return None

    def destroy(self, _data: Any) -> None:
        try:
            self.method("destroy")()
        except BaseException:
            traceback.print_exc()

    def getattr(self, path: Optional[bytes], found: Any, info: Any) -> None:
        if info and self.has_fstat:
            attributes = self.method("fstat")(self.file(path, info))
        elif path is None:
            raise OSError(errno.ENOENT, "a file without a name")
        else:
            attributes = self.method("stat")(self.path(path))
        fill(found, attributes)

    def readlink(self, path: bytes, buffer: int, size: int) -> None:
        target = os.fsencode(self.method("readlink")(self.path(path)))[:size - 1]
        ctypes.memmove(buffer, target + b"\0", len(target) + 1)

    def mknod(self, path: bytes, mode: int, device: int) -> None:
        self.method("mknod")(self.path(path), mode, device)

    def mkdir(self, path: bytes, mode: int) -> None:
        self.method("mkdir")(self.path(path), mode)

    def unlink(self, path: bytes) -> None:
        self.method("unlink")(self.path(path))

    def rmdir(self, path: bytes) -> None:
        self.method("rmdir")(self.path(path))

    def symlink(self, target: bytes, path: bytes) -> None:
        self.method("symlink")(os.fsdecode(target), self.path(path))

    def rename(self, source: bytes, target: bytes, flags: int) -> None:
        self.method("rename")(self.path(source), self.path(target), flags)

    def link(self, path: bytes, name: bytes) -> None:
        self.method("link")(self.path(path), self.path(name))

    def chmod(self, path: bytes, mode: int, _info: Any) -> None:
        self.method("chmod")(self.path(path), modes.S_IMODE(mode))

    def chown(self, path: bytes, uid: int, gid: int, _info: Any) -> None:
        signed = [-1 if one == 0xFFFFFFFF else one for one in (uid, gid)]
        self.method("chown")(self.path(path), *signed)

    def truncate(self, path: Optional[bytes], size: int, info: Any) -> None:
        if info and self.has("ftruncate"):
            self.method("ftruncate")(self.file(path, info), size)
        elif path is not None and self.has("truncate"):
            self.method("truncate")(self.path(path), size)
        else:
            raise OSError(errno.ENOSYS, "truncate")

    def opened(self, info: Any, file: Any) -> None:
        info = _library.FileInfo.from_address(info)
        info.fh = self.add(file)
        if self.system.direct_io:
            info.bits |= _library.FileInfo.DIRECT_IO
        if self.system.keep_cache:
            info.bits |= _library.FileInfo.KEEP_CACHE

    def open(self, path: bytes, info: Any) -> None:
        name = self.path(path)
        flags = _library.flags(info) & ~NOT_OURS
        self.opened(info, self.method("open")(name, flags) if self.has("open") else Opened(name))

    def create(self, path: bytes, mode: int, info: Any) -> None:
        flags = _library.flags(info) | os.O_CREAT
        self.opened(info, self.method("open")(self.path(path), flags, modes.S_IMODE(mode)))

    def read(self, path: bytes, buffer: int, size: int, offset: int, info: Any) -> int:
        room = _library.memory(buffer, size, _library.WRITABLE)
        return self.read_into(self.file(path, info), room, offset)

    def write(self, path: bytes, buffer: int, size: int, offset: int, info: Any) -> int:
        data = _library.memory(buffer, size, _library.READ_ONLY)
        return self.method("pwrite")(self.file(path, info), data, offset)

    def statfs(self, _path: bytes, found: Any) -> None:
        answer, found = self.method("statvfs")(), found.contents
        get = answer.get if isinstance(answer, Mapping) else lambda name: getattr(answer, name, None)
        for name in ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail",
                     "namemax"):
            setattr(found, name, get("f_" + name) or 0)
        found.bsize = found.bsize or 4096
        found.frsize = found.frsize or found.bsize
        found.namemax = found.namemax or 255

    def flush(self, path: bytes, info: Any) -> None:
        self.method("flush")(self.file(path, info))

    def release(self, path: bytes, info: Any) -> None:
        number = _library.handle(info)
        self.file(path, info)
        with self.lock:
            file = self.files.pop(number)
            self.free.append(number)
        if self.has("close"):
            self.method("close")(file)

    def fsync(self, path: bytes, data_only: int, info: Any) -> None:
        self.method("fsync")(self.file(path, info), bool(data_only))

    def setxattr(self, path: bytes, name: bytes, value: int, size: int, flags: int) -> None:
        self.method("setxattr")(self.path(path), os.fsdecode(name), ctypes.string_at(value, size),
                                flags)

    def getxattr(self, path: bytes, name: bytes, value: int, size: int) -> int:
        return put(self.method("getxattr")(self.path(path), os.fsdecode(name)), value, size)

    def listxattr(self, path: bytes, names: int, size: int) -> int:
        found = self.method("listxattr")(self.path(path))
        return put(b"".join(os.fsencode(name) + b"\0" for name in found), names, size)

    def removexattr(self, path: bytes, name: bytes) -> None:
        self.method("removexattr")(self.path(path), os.fsdecode(name))

    def readdir(self, path: bytes, buffer: int, _fill: Any, _offset: int, _info: Any,
                _flags: int) -> None:
        # All at once: a call for each would take longer than all else.
        names, found = [], []
        for entry in self.method("listdir")(self.path(path)):
            if isinstance(entry, (str, bytes)):
                name, mode, inode = entry, 0, 0
            else:
                name, mode, inode = entry if len(entry) == 3 else (*entry, 0)
            names.append(name if name.__class__ is str else os.fsdecode(name))
            found += (mode & WORD, inode & LONG or UNKNOWN)
        text = "\0".join((*names, "")).encode("utf-8", "surrogateescape")
        assert _loaded is not None
        if _loaded.culvert_fuse_fill_names(buffer, text, len(text),
                                           struct.pack(f"={len(found)}Q", *found), len(names)):
            raise OSError(errno.EINVAL, "a name with NUL in it, or none")

    def access(self, path: bytes, mode: int) -> None:
        self.method("access")(self.path(path), mode)

    def utimens(self, path: bytes, times: Any, _info: Any) -> None:
        name, found = self.path(path), list(times.contents)
        now = None
        pairs = [found[:2], found[2:]]
        for index, (seconds, rest) in enumerate(pairs):
            if rest == UTIME_NOW:
                import time
                now = now or time.time_ns()
                pairs[index] = now
            elif rest == UTIME_OMIT:
                pairs[index] = None
            else:
                pairs[index] = seconds * 10**9 + rest
        if None in pairs:
            attributes = self.method("stat")(name)
            get = getter(attributes)
            old = [nanoseconds(get, "st_atime"), nanoseconds(get, "st_mtime")]
            pairs = [was if one is None else one for one, was in zip(pairs, old)]
        self.method("utime")(name, ns=tuple(pairs))

    def fallocate(self, path: bytes, mode: int, offset: int, size: int, info: Any) -> None:
        self.method("fallocate")(self.file(path, info), mode, offset, size)

    def lseek(self, path: bytes, offset: int, whence: int, info: Any) -> int:
        return self.method("lseek")(self.file(path, info), offset, whence)


def put(data: bytes, where: int, size: int) -> int:
    """An attribute's bytes, where there is room; their number where nobody wants them yet."""
    if size:
        if len(data) > size:
            raise OSError(errno.ERANGE, "the buffer is too small")
        ctypes.memmove(where, bytes(data), len(data))
    return len(data)


def nanoseconds(get: Callable[[str], Any], name: str) -> int:
    """The time `name` of attributes."""
    exact = get(name + "_ns")
    if exact is not None:
        return int(exact)
    rough = get(name)
    return int(rough * 10**9) if rough else 0


def getter(attributes: Any) -> Callable[[str], Any]:
    """What gives attributes by their names, None where there is none."""
    if attributes.__class__ is dict or isinstance(attributes, Mapping):
        return attributes.get
    return lambda name: getattr(attributes, name, None)


#: struct stat of x86-64, without st_dev and what is behind the times.
STAT = struct.Struct("<8xQQIIIxxxxQqqqqqqqqq24x")
#: All bits of a number that has no sign in C.
WORD, LONG = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def fill(found: int, attributes: Any) -> None:
    """struct stat, of an os.stat_result or what has its names."""
    get = getter(attributes)
    size = get("st_size") or 0
    atime, mtime, ctime = [nanoseconds(get, name) for name in ("st_atime", "st_mtime", "st_ctime")]
    packed = STAT.pack(
        (get("st_ino") or 0) & LONG, (get("st_nlink") or 1) & LONG, (get("st_mode") or 0) & WORD,
        (get("st_uid") or 0) & WORD, (get("st_gid") or 0) & WORD, (get("st_rdev") or 0) & LONG,
        size, get("st_blksize") or 0,
        get("st_blocks") or (size + 511) // 512, *divmod(atime, 10**9), *divmod(mtime, 10**9),
        *divmod(ctime, 10**9))
    ctypes.memmove(found, packed, STAT.size)


def serve(system: FileSystem, source: str, target: str, options: list,
          one_at_a_time: bool = False, mounted: Optional[Callable[[], None]] = None,
          judged: bool = False) -> int:
    """Serves `system` until the mount ends; the process's status. Modes and owners decide where
    that is asked for or, `judged`, the class has no method `access`."""
    global _loaded
    words = [option.partition("=") for option in options]
    mount = Mount(source, target, {name: value for name, _, value in words})
    library = _loaded = _library.load()
    host = Host(system, mount)
    host.mounted = mounted
    if host.has("init"):
        host.method("init")(mount)
    passed = [option for option, word in zip(options, words) if word[0] in PASSED]
    if judged and "default_permissions" not in passed and not host.has("access"):
        passed.append("default_permissions")
    fsname = source.replace("\\", "\\\\").replace(",", "\\,")
    arguments = [sys.argv[0] or "culvert", target, "-f", "-o", ",".join(
        ["fsname=" + fsname, "subtype=python", *passed])]
    if one_at_a_time:
        arguments.append("-s")
    array = (ctypes.c_char_p * (len(arguments) + 1))(*map(os.fsencode, arguments), None)
    # Python's own handler would never run while the main thread is in the library.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return library.culvert_fuse_main(len(arguments), array, ctypes.byref(host.operations),
                                     ctypes.sizeof(host.operations), None, _library.VERSION)


def flush() -> None:
    """Writes what waits in the standard streams, as far as that can be."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def in_background(work: Callable[[Callable[[], None]], int]) -> int:
    """Does `work` in a child, before there is any thread; ends this process with 0 when it has
    called what it gets, or comes back with the child's status. In the child, comes back with what
    `work` gives, or its exception, only if it has called that: the author's program goes on in one.
    """
    # Else both would write what waits there.
    flush()
    reads, writes = os.pipe()
    child = os.fork()
    if child:
        os.close(writes)
        if os.read(reads, 1):
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(reads)
    told = False

    def mounted() -> None:
        nonlocal told
        os.setsid()
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        os.close(null)
        told = True
        os.write(writes, b"m")
        os.close(writes)
    try:
        status = work(mounted)
    except BaseException as error:
        if told:
            raise
        status = 1
        if not isinstance(error, SystemExit):
            traceback.print_exc()
        elif isinstance(error.code, int):
            status = error.code
        elif error.code is not None:
            print(error.code, file=sys.stderr)
    if not told:
        # The parent goes on with the status.
        flush()
        os._exit(status or 1)
    return status


#: Options of the mount that are not the file system's.
PASSED = frozenset(("allow_other", "default_permissions", "ro", "rw", "dev", "suid", "nodev", "nosuid",
                    "noexec", "exec", "max_read", "auto_unmount"))
