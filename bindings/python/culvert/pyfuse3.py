"""pyfuse3's names, for programs that import it: `python3 -m culvert --as pyfuse3 PROGRAM …`.

There are Operations with its `async` methods by nodes, EntryAttributes and the other classes, init,
main (trio, or asyncio by `pyfuse3.asyncio.enable`), close, terminate, readdir_reply, invalidate_inode,
invalidate_entry and invalidate_entry_async. Not there: notify_store, getxattr, setxattr and syncfs as
functions of the module, poll, ioctl, `deleted` of invalidate_entry, enable_writeback_cache, enable_acl.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
import traceback
import types
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint
from ctypes import c_uint64, c_void_p
from typing import Any, Callable, List, Optional

from . import _library
from ._library import FileInfo as _Info
from ._library import Stat as _Stat
from ._library import StatVfs as _StatVfs

__version__ = "3.4.0"
ROOT_INODE = 1
ENOATTR = errno.ENODATA
ENOTSUP = errno.ENOTSUP
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
XATTR_CREATE, XATTR_REPLACE = os.XATTR_CREATE, os.XATTR_REPLACE
default_options = frozenset(("default_permissions",))
_DAY = 300.0


class FUSEError(Exception):
    """An error of a call."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.errno = self.errno_ = number

    def __str__(self) -> str:
        return os.strerror(self.errno)


class EntryAttributes:
    """Attributes of a node, and for how long programs believe them."""

    def __init__(self) -> None:
        self.st_ino = self.generation = 0
        self.entry_timeout = self.attr_timeout = _DAY
        self.st_mode = self.st_nlink = self.st_uid = self.st_gid = self.st_rdev = self.st_size = 0
        self.st_blksize, self.st_blocks = 4096, 0
        self.st_atime_ns = self.st_mtime_ns = self.st_ctime_ns = self.st_birthtime_ns = 0


class FileInfo:
    """An open file."""

    def __init__(self, fh: int = 0, direct_io: bool = False, keep_cache: bool = True,
                 nonseekable: bool = False) -> None:
        self.fh, self.direct_io, self.keep_cache = fh, direct_io, keep_cache
        self.nonseekable = nonseekable


class StatvfsData:
    """What statvfs(3) says."""

    def __init__(self) -> None:
        self.f_bsize = self.f_frsize = self.f_blocks = self.f_bfree = self.f_bavail = 0
        self.f_files = self.f_ffree = self.f_favail = 0
        self.f_namemax = 255


class SetattrFields:
    """Which attributes are to be changed."""

    def __init__(self, bits: int) -> None:
        self.update_mode = bool(bits & 1)
        self.update_uid = bool(bits & 2)
        self.update_gid = bool(bits & 4)
        self.update_size = bool(bits & 8)
        self.update_atime = bool(bits & (1 << 4 | 1 << 7))
        self.update_mtime = bool(bits & (1 << 5 | 1 << 8))
        self.update_ctime = bool(bits & 1 << 10)


class RequestContext:
    """Who asks."""

    def __init__(self, uid: int, gid: int, pid: int, umask: int) -> None:
        self.uid, self.gid, self.pid, self.umask = uid, gid, pid, umask


class ReaddirToken:
    """Where the names of one call of readdir go."""

    def __init__(self, req: int, size: int) -> None:
        self.req, self.size, self.used = req, size, 0
        self.buffer = ctypes.create_string_buffer(size)


def _missing(name: str) -> Callable[..., Any]:
    async def method(self: Any, *_: Any) -> Any:
        raise FUSEError(errno.ENOSYS)
    method.__name__ = name
    method.missing = True
    return method


class Operations:
    """What a file system may have; each method can be overridden."""

    supports_dot_lookup = False
    enable_writeback_cache = False
    enable_acl = False

    def init(self) -> None:
        """The mount begins."""

    def destroy(self) -> None:
        """The mount ends."""

    async def forget(self, inode_list: Any) -> None:
        """Lookups are given back."""

    def stacktrace(self) -> None:
        """Writes where each thread is."""
        import faulthandler
        faulthandler.dump_traceback()


for _name in ("lookup", "getattr", "setattr", "readlink", "mknod", "mkdir", "unlink", "rmdir",
              "symlink", "rename", "link", "open", "read", "write", "flush", "release", "fsync",
              "opendir", "readdir", "releasedir", "fsyncdir", "statfs", "setxattr", "getxattr",
              "listxattr", "removexattr", "access", "create"):
    setattr(Operations, _name, _missing(_name))


class _Entry(Structure):
    _fields_ = [("ino", c_uint64), ("generation", c_uint64), ("attr", _Stat),
                ("attr_timeout", c_double), ("entry_timeout", c_double)]


class _Context(Structure):
    _fields_ = [("uid", c_uint), ("gid", c_uint), ("pid", c_int), ("umask", c_uint)]


class _Forget(Structure):
    _fields_ = [("ino", c_uint64), ("nlookup", c_uint64)]


class _Arguments(Structure):
    _fields_ = [("count", c_int), ("words", POINTER(c_char_p)), ("allocated", c_int)]


_R, _I, _N, _F = c_void_p, c_uint64, c_char_p, POINTER(_Info)
_OPERATIONS = [
    ("init", (c_void_p, c_void_p)), ("destroy", (c_void_p,)), ("lookup", (_R, _I, _N)),
    ("forget", (_R, _I, c_uint64)), ("getattr", (_R, _I, _F)),
    ("setattr", (_R, _I, POINTER(_Stat), c_int, _F)), ("readlink", (_R, _I)),
    ("mknod", (_R, _I, _N, c_uint, c_uint64)), ("mkdir", (_R, _I, _N, c_uint)),
    ("unlink", (_R, _I, _N)), ("rmdir", (_R, _I, _N)), ("symlink", (_R, _N, _I, _N)),
    ("rename", (_R, _I, _N, _I, _N, c_uint)), ("link", (_R, _I, _I, _N)), ("open", (_R, _I, _F)),
    ("read", (_R, _I, c_size_t, c_int64, _F)), ("write", (_R, _I, c_void_p, c_size_t, c_int64, _F)),
    ("flush", (_R, _I, _F)), ("release", (_R, _I, _F)), ("fsync", (_R, _I, c_int, _F)),
    ("opendir", (_R, _I, _F)), ("readdir", None), ("releasedir", (_R, _I, _F)),
    ("fsyncdir", (_R, _I, c_int, _F)), ("statfs", (_R, _I)),
    ("setxattr", (_R, _I, _N, c_void_p, c_size_t, c_int)), ("getxattr", (_R, _I, _N, c_size_t)),
    ("listxattr", (_R, _I, c_size_t)), ("removexattr", (_R, _I, _N)), ("access", (_R, _I, c_int)),
    ("create", (_R, _I, _N, c_uint, _F)), ("getlk", None), ("setlk", None), ("bmap", None),
    ("ioctl", None), ("poll", None), ("write_buf", None), ("retrieve_reply", None),
    ("forget_multi", (_R, c_size_t, POINTER(_Forget))), ("flock", None), ("fallocate", None),
    ("readdirplus", (_R, _I, c_size_t, c_int64, _F)), ("copy_file_range", None), ("lseek", None),
]


class _Operations(Structure):
    _fields_ = [(name, CFUNCTYPE(None, *kinds) if kinds else c_void_p) for name, kinds in _OPERATIONS]


class _Session:
    """The one session of the process."""

    def __init__(self, operations: Operations, mountpoint: str, options: Any) -> None:
        self.operations, self.mountpoint = operations, mountpoint
        self.library = _library.load()
        self.table = _Operations()
        self.keep: List[Any] = []
        for name, kinds in _OPERATIONS:
            method = getattr(self, "on_" + name, None)
            asked = {"readdirplus": "readdir", "forget_multi": "forget"}.get(name, name)
            missing = getattr(getattr(type(operations), asked, None), "missing", False)
            if kinds and method and not missing:
                function = CFUNCTYPE(None, *kinds)(method)
                self.keep.append(function)
                setattr(self.table, name, function)
        words = [b"pyfuse3"]
        for option in sorted(options):
            words += [b"-o", os.fsencode(option)]
        array = (c_char_p * (len(words) + 1))(*words, None)
        arguments = _Arguments(len(words), array, 0)
        new = self.call("session_new", c_void_p, POINTER(_Arguments), POINTER(_Operations), c_size_t,
                        c_void_p, c_int)
        self.session = new(ctypes.byref(arguments), ctypes.byref(self.table),
                           ctypes.sizeof(self.table), None, _library.VERSION)
        if not self.session:
            raise RuntimeError("fuse_session_new() failed")
        if self.call("session_mount", c_int, c_void_p, c_char_p)(self.session,
                                                                  os.fsencode(mountpoint)):
            raise RuntimeError("fuse_session_mount failed")
        self.loop = self.call("session_loop", c_int, c_void_p)
        self.reply_error = self.call("reply_err", c_int, c_void_p, c_int)
        self.context_of = self.call("req_ctx", POINTER(_Context), c_void_p)
        self.add = self.call("add_direntry_plus", c_size_t, c_void_p, c_void_p, c_size_t, c_char_p,
                             POINTER(_Entry), c_int64)
        self.start: Optional[Callable[..., None]] = None

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        function = getattr(self.library, "culvert_fuse_" + name)
        function.restype, function.argtypes = result, list(arguments)
        return function

    def reply(self, name: str, *arguments: Any) -> Callable[..., int]:
        return self.call("reply_" + name, c_int, c_void_p, *arguments)

    # From a call to a task.

    def serve(self, req: int, work: Callable[[], Any], answer: Callable[[Any], Any]) -> None:
        async def task() -> None:
            try:
                found = await work()
            except FUSEError as error:
                self.reply_error(req, error.errno)
                return
            except BaseException as error:
                traceback.print_exc()
                self.reply_error(req, errno.EIO)
                if not isinstance(error, Exception):
                    raise
                return
            try:
                answer(found)
            except Exception:
                # Of another kind than what is awaited: nothing has been answered.
                traceback.print_exc()
                self.reply_error(req, errno.EIO)
        assert self.start is not None
        self.start(task)

    def nothing(self, req: int) -> Callable[[Any], Any]:
        return lambda _: self.reply_error(req, 0)

    def context(self, req: int) -> RequestContext:
        found = self.context_of(req).contents
        return RequestContext(found.uid, found.gid, found.pid, found.umask)

    @staticmethod
    def stat(attributes: EntryAttributes) -> _Stat:
        found = _Stat()
        for name in ("ino", "nlink", "mode", "uid", "gid", "rdev", "size", "blksize", "blocks"):
            setattr(found, name, getattr(attributes, "st_" + name))
        for name in ("atime", "mtime", "ctime"):
            seconds, rest = divmod(getattr(attributes, f"st_{name}_ns"), 10**9)
            setattr(found, name, seconds)
            setattr(found, name + "_ns", rest)
        return found

    def entry(self, attributes: EntryAttributes) -> _Entry:
        return _Entry(attributes.st_ino, attributes.generation, self.stat(attributes),
                      attributes.attr_timeout, attributes.entry_timeout)

    def answer_entry(self, req: int) -> Callable[[Any], Any]:
        reply = self.reply("entry", POINTER(_Entry))

        def answer(found: EntryAttributes) -> None:
            entry = self.entry(found)
            reply(req, ctypes.byref(entry))
        return answer

    def answer_attributes(self, req: int) -> Callable[[Any], Any]:
        reply = self.reply("attr", POINTER(_Stat), c_double)

        def answer(found: EntryAttributes) -> None:
            stat = self.stat(found)
            reply(req, ctypes.byref(stat), found.attr_timeout)
        return answer

    def answer_bytes(self, req: int) -> Callable[[Any], Any]:
        reply = self.reply("buf", c_char_p, c_size_t)
        return lambda found: reply(req, bytes(found), len(found))

    def answer_sized(self, req: int, size: int) -> Callable[[Any], Any]:
        """An attribute's bytes, or their number where nobody wants them yet."""
        def answer(found: bytes) -> None:
            if size == 0:
                self.reply("xattr", c_size_t)(req, len(found))
            elif len(found) > size:
                self.reply_error(req, errno.ERANGE)
            else:
                self.answer_bytes(req)(found)
        return answer

    @staticmethod
    def info(found: FileInfo) -> _Info:
        info = _Info()
        info.fh = found.fh
        info.bits = (found.direct_io and 1 or 0) | (found.keep_cache and 2 or 0)
        info.bits |= found.nonseekable and 8 or 0
        return info

    # The functions.

    def on_init(self, _data: int, _connection: int) -> None:
        self.operations.init()

    def on_destroy(self, _data: int) -> None:
        self.operations.destroy()

    def on_lookup(self, req: int, parent: int, name: bytes) -> None:
        who = self.context(req)
        work = lambda: self.operations.lookup(parent, name, who)
        self.serve(req, work, self.answer_entry(req))

    def on_forget(self, req: int, inode: int, count: int) -> None:
        self.forget(req, [(inode, count)])

    def on_forget_multi(self, req: int, count: int, forgets: Any) -> None:
        self.forget(req, [(one.ino, one.nlookup) for one in forgets[:count]])

    def forget(self, req: int, inodes: Any) -> None:
        async def task() -> None:
            try:
                await self.operations.forget(inodes)
            except Exception:
                traceback.print_exc()
        # It has no reply.
        self.call("reply_none", None, c_void_p)(req)
        assert self.start is not None
        self.start(task)

    def on_getattr(self, req: int, inode: int, _info: Any) -> None:
        who = self.context(req)
        work = lambda: self.operations.getattr(inode, who)
        self.serve(req, work, self.answer_attributes(req))

    def on_setattr(self, req: int, inode: int, stat: Any, bits: int, info: Any) -> None:
        import time
        wanted, stat = EntryAttributes(), stat.contents
        wanted.st_mode, wanted.st_uid, wanted.st_gid = stat.mode, stat.uid, stat.gid
        wanted.st_size = stat.size
        for name, now in (("atime", 1 << 7), ("mtime", 1 << 8), ("ctime", 0)):
            time_ns = getattr(stat, name) * 10**9 + getattr(stat, name + "_ns")
            setattr(wanted, f"st_{name}_ns", time.time_ns() if bits & now else time_ns)
        handle = info.contents.fh if info else None
        who = self.context(req)
        work = lambda: self.operations.setattr(inode, wanted, SetattrFields(bits), handle, who)
        self.serve(req, work, self.answer_attributes(req))

    def on_readlink(self, req: int, inode: int) -> None:
        reply = self.reply("readlink", c_char_p)
        who = self.context(req)
        work = lambda: self.operations.readlink(inode, who)
        self.serve(req, work, lambda found: reply(req, found))

    def on_mknod(self, req: int, parent: int, name: bytes, mode: int, device: int) -> None:
        who = self.context(req)
        work = lambda: self.operations.mknod(parent, name, mode, device, who)
        self.serve(req, work, self.answer_entry(req))

    def on_mkdir(self, req: int, parent: int, name: bytes, mode: int) -> None:
        who = self.context(req)
        work = lambda: self.operations.mkdir(parent, name, mode | 0o40000, who)
        self.serve(req, work, self.answer_entry(req))

    def on_unlink(self, req: int, parent: int, name: bytes) -> None:
        who = self.context(req)
        work = lambda: self.operations.unlink(parent, name, who)
        self.serve(req, work, self.nothing(req))

    def on_rmdir(self, req: int, parent: int, name: bytes) -> None:
        who = self.context(req)
        work = lambda: self.operations.rmdir(parent, name, who)
        self.serve(req, work, self.nothing(req))

    def on_symlink(self, req: int, target: bytes, parent: int, name: bytes) -> None:
        who = self.context(req)
        work = lambda: self.operations.symlink(parent, name, target, who)
        self.serve(req, work, self.answer_entry(req))

    def on_rename(self, req: int, parent: int, name: bytes, to: int, new: bytes, flags: int) -> None:
        who = self.context(req)
        work = lambda: self.operations.rename(parent, name, to, new, flags, who)
        self.serve(req, work, self.nothing(req))

    def on_link(self, req: int, inode: int, parent: int, name: bytes) -> None:
        who = self.context(req)
        work = lambda: self.operations.link(inode, parent, name, who)
        self.serve(req, work, self.answer_entry(req))

    def on_open(self, req: int, inode: int, info: Any) -> None:
        reply = self.reply("open", POINTER(_Info))
        who = self.context(req)
        flags = info.contents.flags
        work = lambda: self.operations.open(inode, flags, who)
        self.serve(req, work, lambda found: reply(req, ctypes.byref(self.info(found))))

    def on_create(self, req: int, parent: int, name: bytes, mode: int, info: Any) -> None:
        reply = self.reply("create", POINTER(_Entry), POINTER(_Info))
        who = self.context(req)
        flags = info.contents.flags
        work = lambda: self.operations.create(parent, name, mode, flags, who)

        def answer(found: Any) -> None:
            file, attributes = found
            entry, info = self.entry(attributes), self.info(file)
            reply(req, ctypes.byref(entry), ctypes.byref(info))
        self.serve(req, work, answer)

    def on_read(self, req: int, _inode: int, size: int, offset: int, info: Any) -> None:
        handle = info.contents.fh
        work = lambda: self.operations.read(handle, offset, size)
        self.serve(req, work, self.answer_bytes(req))

    def on_write(self, req: int, _inode: int, data: int, size: int, offset: int, info: Any) -> None:
        reply = self.reply("write", c_size_t)
        handle = info.contents.fh
        content = ctypes.string_at(data, size)
        work = lambda: self.operations.write(handle, offset, content)
        self.serve(req, work, lambda count: reply(req, count))

    def on_flush(self, req: int, _inode: int, info: Any) -> None:
        handle = info.contents.fh
        self.serve(req, lambda: self.operations.flush(handle), self.nothing(req))

    def on_release(self, req: int, _inode: int, info: Any) -> None:
        handle = info.contents.fh
        self.serve(req, lambda: self.operations.release(handle), self.nothing(req))

    def on_fsync(self, req: int, _inode: int, data_only: int, info: Any) -> None:
        handle = info.contents.fh
        work = lambda: self.operations.fsync(handle, bool(data_only))
        self.serve(req, work, self.nothing(req))

    def on_opendir(self, req: int, inode: int, info: Any) -> None:
        reply, made = self.reply("open", POINTER(_Info)), _Info()
        made.flags = info.contents.flags

        def answer(handle: int) -> None:
            made.fh = handle
            reply(req, ctypes.byref(made))
        who = self.context(req)
        self.serve(req, lambda: self.operations.opendir(inode, who), answer)

    def on_readdirplus(self, req: int, _inode: int, size: int, offset: int, info: Any) -> None:
        token = ReaddirToken(req, size)
        handle = info.contents.fh
        work = lambda: self.operations.readdir(handle, offset, token)
        answer = self.answer_bytes(req)
        self.serve(req, work, lambda _: answer(token.buffer.raw[:token.used]))

    def on_releasedir(self, req: int, _inode: int, info: Any) -> None:
        handle = info.contents.fh
        self.serve(req, lambda: self.operations.releasedir(handle), self.nothing(req))

    def on_fsyncdir(self, req: int, _inode: int, data_only: int, info: Any) -> None:
        handle = info.contents.fh
        work = lambda: self.operations.fsyncdir(handle, bool(data_only))
        self.serve(req, work, self.nothing(req))

    def on_statfs(self, req: int, _inode: int) -> None:
        reply = self.reply("statfs", POINTER(_StatVfs))

        def answer(found: StatvfsData) -> None:
            system = _StatVfs()
            for name in ("bsize", "frsize", "blocks", "bfree", "bavail", "files", "ffree", "favail",
                         "namemax"):
                setattr(system, name, getattr(found, "f_" + name))
            reply(req, ctypes.byref(system))
        who = self.context(req)
        self.serve(req, lambda: self.operations.statfs(who), answer)

    def on_setxattr(self, req: int, inode: int, name: bytes, value: int, size: int,
                    _flags: int) -> None:
        data = ctypes.string_at(value, size)
        who = self.context(req)
        work = lambda: self.operations.setxattr(inode, name, data, who)
        self.serve(req, work, self.nothing(req))

    def on_getxattr(self, req: int, inode: int, name: bytes, size: int) -> None:
        who = self.context(req)
        work = lambda: self.operations.getxattr(inode, name, who)
        self.serve(req, work, self.answer_sized(req, size))

    def on_listxattr(self, req: int, inode: int, size: int) -> None:
        answer = self.answer_sized(req, size)
        who = self.context(req)
        work = lambda: self.operations.listxattr(inode, who)
        self.serve(req, work, lambda names: answer(b"".join(name + b"\0" for name in names)))

    def on_removexattr(self, req: int, inode: int, name: bytes) -> None:
        who = self.context(req)
        work = lambda: self.operations.removexattr(inode, name, who)
        self.serve(req, work, self.nothing(req))

    def on_access(self, req: int, inode: int, mode: int) -> None:
        who = self.context(req)

        async def allowed() -> None:
            if not await self.operations.access(inode, mode, who):
                raise FUSEError(errno.EACCES)
        self.serve(req, allowed, self.nothing(req))


_session: Optional[_Session] = None
_asyncio = False


def _current() -> _Session:
    if _session is None:
        raise RuntimeError("Need to call init() before main().")
    return _session


def init(ops: Operations, mountpoint: str, options: Any = default_options) -> None:
    """Mounts."""
    global _session
    _session = _Session(ops, os.path.abspath(mountpoint), options)


def readdir_reply(token: ReaddirToken, name: bytes, attr: EntryAttributes, next_id: int) -> bool:
    """Adds a name; False: there is no more room."""
    session = _current()
    entry = session.entry(attr)
    place = ctypes.addressof(token.buffer) + token.used
    left = token.size - token.used
    needed = session.add(token.req, place, left, name, ctypes.byref(entry), next_id)
    if needed > left:
        return False
    token.used += needed
    return True


async def main(min_tasks: int = 1, max_tasks: int = 99) -> None:
    """Serves until the mount ends."""
    session = _current()
    ended: List[Any] = []

    def serve(done: Callable[[], None]) -> None:
        try:
            ended.append(session.loop(session.session))
        finally:
            done()
    if _asyncio:
        import asyncio
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        tasks: set = set()

        def begin(task: Callable[[], Any]) -> None:
            one = loop.create_task(task())
            tasks.add(one)
            one.add_done_callback(tasks.discard)
        session.start = lambda task: loop.call_soon_threadsafe(begin, task)
        done = lambda: loop.call_soon_threadsafe(event.set)
        threading.Thread(target=serve, args=(done,), daemon=True).start()
        await event.wait()
    else:
        import trio
        token, over = trio.lowlevel.current_trio_token(), trio.Event()
        async with trio.open_nursery() as nursery:
            session.start = lambda task: token.run_sync_soon(nursery.start_soon, task)
            done = lambda: token.run_sync_soon(over.set)
            threading.Thread(target=serve, args=(done,), daemon=True).start()
            await over.wait()


def terminate() -> None:
    """Lets main end."""
    session = _current()
    session.call("session_exit", None, c_void_p)(session.session)
    session.call("session_unmount", None, c_void_p)(session.session)


def close(unmount: bool = True) -> None:
    """Unmounts."""
    global _session
    session, _session = _current(), None
    if unmount:
        session.call("session_unmount", None, c_void_p)(session.session)
    session.call("session_destroy", None, c_void_p)(session.session)


def told(result: int) -> None:
    """Raises what a notification has answered."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def invalidate_inode(inode: int, attr_only: bool = False) -> None:
    """Makes programs forget what they know of a node."""
    session = _current()
    notify = session.call("notify_inval_inode", c_int, c_void_p, c_uint64, c_int64, c_int64)
    told(notify(session.session, inode, -1 if attr_only else 0, 0))


def invalidate_entry(inode_p: int, name: bytes, deleted: int = 0) -> None:
    """Makes programs forget a name."""
    session = _current()
    notify = session.call("notify_inval_entry", c_int, c_void_p, c_uint64, c_char_p, c_size_t)
    told(notify(session.session, inode_p, name, len(name)))


def invalidate_entry_async(inode_p: int, name: bytes, deleted: int = 0,
                           ignore_enoent: bool = False) -> None:
    """Makes programs forget a name, without waiting."""
    def tell() -> None:
        try:
            invalidate_entry(inode_p, name, deleted)
        except FileNotFoundError:
            if not ignore_enoent:
                traceback.print_exc()
    threading.Thread(target=tell, daemon=True).start()


def get_sup_groups(pid: int) -> set:
    """Supplementary groups of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("Groups:"):
                return set(map(int, line.split()[1:]))
    raise RuntimeError("Unable to parse")


def listdir(path: str) -> Any:
    """Names of a directory, without waiting for this process's own mount."""
    return os.listdir(path)


def _enable() -> None:
    global _asyncio
    _asyncio = True


asyncio = types.ModuleType("pyfuse3.asyncio")
asyncio.enable = _enable
asyncio.disable = lambda: globals().__setitem__("_asyncio", False)
sys.modules.setdefault("pyfuse3.asyncio", asyncio)
sys.modules.setdefault("pyfuse3", sys.modules[__name__])
