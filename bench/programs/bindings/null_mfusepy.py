"""The null file system of null.c by mfusepy: null_mfusepy.py TARGET."""

import errno
import itertools
import os
import stat
import sys

import mfusepy as fuse

ZEROES = bytes(1 << 20)


class Node:
    """A file."""

    def __init__(self, mode):
        self.mode, self.size = mode, 0


class Null(fuse.Operations):
    """The file system."""

    use_ns = True

    def __init__(self):
        self.nodes = {"/": Node(stat.S_IFDIR | 0o777)}
        self.files, self.numbers = {}, itertools.count(1)

    def find(self, path):
        node = self.nodes.get(path)
        if node is None:
            raise fuse.FuseOSError(errno.ENOENT)
        return node

    def getattr(self, path, fh=None):
        node = self.find(path)
        return {"st_mode": node.mode, "st_nlink": 1, "st_size": node.size}

    def readdir(self, path, fh):
        return [".", "..", *(name[1:] for name in list(self.nodes) if name != "/")]

    def opened(self, node):
        number = next(self.numbers)
        self.files[number] = node
        return number

    def open(self, path, flags):
        node = self.find(path)
        if flags & os.O_TRUNC:
            node.size = 0
        return self.opened(node)

    def create(self, path, mode, fi=None):
        return self.opened(self.nodes.setdefault(path, Node(stat.S_IFREG | mode)))

    def release(self, path, fh):
        del self.files[fh]
        return 0

    def read(self, path, size, offset, fh):
        return ZEROES[:max(0, min(self.files[fh].size - offset, size))]

    def write(self, path, data, offset, fh):
        node = self.files[fh]
        node.size = max(node.size, offset + len(data))
        return len(data)

    def truncate(self, path, length, fh=None):
        self.find(path).size = length

    def unlink(self, path):
        self.find(path)
        del self.nodes[path]

    def rename(self, old, new):
        self.find(old)
        self.nodes[new] = self.nodes.pop(old)

    def chmod(self, path, mode):
        self.find(path).mode = stat.S_IFREG | mode & 0o7777

    def utimens(self, path, times=None):
        """Nothing is kept."""


fuse.FUSE(Null(), sys.argv[1], foreground=True, allow_other=True, default_permissions=True)
