"""The null file system of null.c in Python."""

import errno
import itertools
import os
import stat

import culvert

#: A slice of it is no copy.
ZEROES = memoryview(bytes(1 << 20))


class Node:
    """A file."""

    def __init__(self, inode, mode):
        self.inode, self.mode, self.size = inode, mode, 0

    def stat(self):
        return {"st_ino": self.inode, "st_mode": self.mode, "st_size": self.size}


class Null(culvert.FileSystem):
    """The file system."""

    inodes = True

    def __init__(self):
        self.root, self.nodes = Node(1, stat.S_IFDIR | 0o777), {}
        self.numbers = itertools.count(2)

    def find(self, path):
        node = self.nodes.get(path) if path else self.root
        if node is None:
            raise OSError(errno.ENOENT, path)
        return node

    def stat(self, path):
        return self.find(path).stat()

    def fstat(self, file):
        return file.stat()

    def listdir(self, path):
        return [(name, stat.S_IFREG, node.inode) for name, node in list(self.nodes.items())]

    def open(self, path, flags, mode=0):
        if flags & os.O_CREAT and path not in self.nodes:
            self.nodes[path] = Node(next(self.numbers), stat.S_IFREG | mode)
        node = self.find(path)
        if flags & os.O_TRUNC:
            node.size = 0
        return node

    def preadv(self, file, buffer, offset):
        found = max(0, min(file.size - offset, len(buffer)))
        buffer[:found] = ZEROES[:found]
        return found

    def pwrite(self, file, data, offset):
        file.size = max(file.size, offset + len(data))
        return len(data)

    def truncate(self, path, size):
        self.find(path).size = size

    def ftruncate(self, file, size):
        file.size = size

    def unlink(self, path):
        self.find(path)
        del self.nodes[path]

    def rename(self, source, target, flags):
        self.find(source)
        self.nodes[target] = self.nodes.pop(source)

    def chmod(self, path, mode):
        node = self.find(path)
        node.mode = stat.S_IFMT(node.mode) | mode

    def utime(self, path, ns):
        """Nothing is kept."""
