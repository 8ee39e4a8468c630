"""The null file system of null.c by pyfuse3: null_pyfuse3.py TARGET."""

import errno
import itertools
import os
import stat
import sys

import pyfuse3
import trio

ZEROES = bytes(1 << 20)


class Node:
    """A file."""

    def __init__(self, inode, mode):
        self.inode, self.mode, self.size, self.named = inode, mode, 0, True


class Null(pyfuse3.Operations):
    """The file system."""

    def __init__(self):
        super().__init__()
        self.names = {}
        self.nodes = {pyfuse3.ROOT_INODE: Node(pyfuse3.ROOT_INODE, stat.S_IFDIR | 0o777)}
        self.numbers = itertools.count(2)

    def entry(self, node):
        found = pyfuse3.EntryAttributes()
        found.st_ino, found.st_mode, found.st_size = node.inode, node.mode, node.size
        found.st_nlink = 1
        found.entry_timeout = found.attr_timeout = 1
        return found

    def find(self, name):
        node = self.names.get(name)
        if node is None:
            raise pyfuse3.FUSEError(errno.ENOENT)
        return node

    async def lookup(self, parent_inode, name, ctx=None):
        return self.entry(self.find(name))

    async def getattr(self, inode, ctx=None):
        return self.entry(self.nodes[inode])

    async def setattr(self, inode, attr, fields, fh, ctx):
        node = self.nodes[inode]
        if fields.update_size:
            node.size = attr.st_size
        if fields.update_mode:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(attr.st_mode)
        return self.entry(node)

    async def open(self, inode, flags, ctx):
        if flags & os.O_TRUNC:
            self.nodes[inode].size = 0
        return pyfuse3.FileInfo(fh=inode, keep_cache=False)

    async def create(self, parent_inode, name, mode, flags, ctx):
        node = self.names.get(name)
        if node is None:
            node = self.names[name] = Node(next(self.numbers), mode)
            self.nodes[node.inode] = node
        return pyfuse3.FileInfo(fh=node.inode, keep_cache=False), self.entry(node)

    async def release(self, fh):
        """Nothing is kept."""

    async def flush(self, fh):
        raise pyfuse3.FUSEError(errno.ENOSYS)

    async def fsync(self, fh, datasync):
        """Nothing is kept."""

    async def read(self, fh, off, size):
        return ZEROES[:max(0, min(self.nodes[fh].size - off, size))]

    async def write(self, fh, off, buf):
        node = self.nodes[fh]
        node.size = max(node.size, off + len(buf))
        return len(buf)

    async def unlink(self, parent_inode, name, ctx):
        self.find(name).named = False
        del self.names[name]

    async def forget(self, inode_list):
        for inode, _ in inode_list:
            if not self.nodes[inode].named:
                del self.nodes[inode]

    async def rename(self, parent_inode_old, name_old, parent_inode_new, name_new, flags, ctx):
        self.find(name_old)
        self.names[name_new] = self.names.pop(name_old)

    async def opendir(self, inode, ctx):
        return inode

    async def readdir(self, fh, start_id, token):
        for number, (name, node) in enumerate(list(self.names.items())[start_id:], start_id + 1):
            if not pyfuse3.readdir_reply(token, name, self.entry(node), number):
                break

    async def releasedir(self, fh):
        """Nothing is kept."""


pyfuse3.init(Null(), sys.argv[1], {"fsname=null", "allow_other", "default_permissions"})
try:
    trio.run(pyfuse3.main)
finally:
    pyfuse3.close(unmount=True)
