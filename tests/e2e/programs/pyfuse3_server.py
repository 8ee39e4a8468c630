"""pyfuse3_server.py TARGET: a directory in memory, with files and directories, by pyfuse3."""
import errno
import os
import stat
import sys

import pyfuse3
import trio


class Memory(pyfuse3.Operations):
    def __init__(self):
        super().__init__()
        self.nodes = {pyfuse3.ROOT_INODE: [stat.S_IFDIR | 0o755, {}]}

    def attributes(self, node):
        mode, content = self.nodes[node]
        found = pyfuse3.EntryAttributes()
        found.st_ino, found.st_mode, found.st_nlink = node, mode, 1
        found.st_size = len(content)
        found.st_uid, found.st_gid = os.getuid(), os.getgid()
        found.entry_timeout = found.attr_timeout = 5
        return found

    def child(self, parent, name):
        try:
            return self.nodes[parent][1][name]
        except KeyError:
            raise pyfuse3.FUSEError(errno.ENOENT)

    def make(self, parent, name, mode, content):
        node = max(self.nodes) + 1
        self.nodes[node] = [mode, content]
        self.nodes[parent][1][name] = node
        return self.attributes(node)

    async def getattr(self, node, ctx=None):
        return self.attributes(node)

    async def lookup(self, parent, name, ctx=None):
        return self.attributes(self.child(parent, name))

    async def setattr(self, node, attr, fields, handle, ctx):
        if fields.update_size:
            content = self.nodes[node][1]
            del content[attr.st_size :]
            content.extend(bytes(attr.st_size - len(content)))
        if fields.update_mode:
            self.nodes[node][0] = attr.st_mode
        return self.attributes(node)

    async def mkdir(self, parent, name, mode, ctx):
        return self.make(parent, name, stat.S_IFDIR | mode, {})

    async def symlink(self, parent, name, target, ctx):
        return self.make(parent, name, stat.S_IFLNK | 0o777, target)

    async def readlink(self, node, ctx):
        return self.nodes[node][1]

    async def create(self, parent, name, mode, flags, ctx):
        made = self.make(parent, name, stat.S_IFREG | mode, bytearray())
        return pyfuse3.FileInfo(fh=made.st_ino), made

    async def open(self, node, flags, ctx):
        return pyfuse3.FileInfo(fh=node)

    async def read(self, node, at, size):
        return bytes(self.nodes[node][1][at : at + size])

    async def write(self, node, at, data):
        content = self.nodes[node][1]
        content.extend(bytes(max(0, at - len(content))))
        content[at : at + len(data)] = data
        return len(data)

    async def opendir(self, node, ctx):
        return node

    async def readdir(self, node, start, token):
        for number, (name, child) in enumerate(list(self.nodes[node][1].items())):
            if number >= start and not pyfuse3.readdir_reply(token, name, self.attributes(child), number + 1):
                break

    async def unlink(self, parent, name, ctx):
        self.child(parent, name)
        del self.nodes[parent][1][name]

    async def rename(self, old, name, new, new_name, flags, ctx):
        self.nodes[new][1][new_name] = self.child(old, name)
        del self.nodes[old][1][name]


pyfuse3.init(Memory(), sys.argv[1], {"fsname=memory"})
trio.run(pyfuse3.main)
pyfuse3.close()
