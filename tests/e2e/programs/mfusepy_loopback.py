#!/usr/bin/env python3
"""A program for mfusepy: a directory as it is. Written against mfusepy's interface alone."""

import errno
import os
import sys

import mfusepy as fuse


class Loopback(fuse.LoggingMixIn, fuse.Operations):
    def __init__(self, root):
        self.root = os.path.realpath(root)

    def __call__(self, op, path, *args):
        return super().__call__(op, self.root + path, *args)

    def access(self, path, amode):
        if not os.access(path, amode):
            raise fuse.FuseOSError(errno.EACCES)
        return 0

    chmod = os.chmod
    chown = os.chown
    mkdir = os.mkdir
    readlink = os.readlink
    rmdir = os.rmdir
    unlink = os.unlink

    def create(self, path, mode, fi=None):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, mode)

    def getattr(self, path, fh=None):
        st = os.lstat(path)
        return {key: getattr(st, key) for key in (
            "st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")}

    def open(self, path, flags):
        return os.open(path, flags)

    def read(self, path, size, offset, fh):
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def readdir(self, path, fh):
        return [".", ".."] + os.listdir(path)

    def release(self, path, fh):
        return os.close(fh)

    def rename(self, old, new):
        return os.rename(old, self.root + new)

    def symlink(self, target, source):
        return os.symlink(source, target)

    def truncate(self, path, length, fh=None):
        with open(path, "r+") as file:
            file.truncate(length)

    def utimens(self, path, times=None):
        os.utime(path, times)

    def statfs(self, path):
        st = os.statvfs(path)
        return {key: getattr(st, key) for key in ("f_bavail", "f_bfree", "f_blocks", "f_bsize")}


if __name__ == "__main__":
    fuse.FUSE(Loopback(sys.argv[1]), sys.argv[2], foreground=True)
