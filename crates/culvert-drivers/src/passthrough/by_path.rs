//! The same directory, served by paths alone: a driver written with [`culvert::path`], as an author
//! outside this repository writes one.
//!
//! Option `paths` chooses it. It exists for tests: the conformance kit and the end-to-end suite run
//! on it, so that every front end is tried with such a driver. Each call walks from the root.

use super::filesystem::PassthroughFs;
use alloc::{boxed::Box, vec::Vec};
use culvert::path::{PathEntry, PathFileSystem};
use culvert::{
    Access, Attributes, Caller, Capabilities, Errno, Error, File, FileSystem, Node, OpenFlags,
    Opened, RenameFlags, Result, SetAttributes, StatFs, Whence,
};

/// [`PassthroughFs`] behind paths. Its files are driven and offer no descriptor.
pub struct ByPath(pub PassthroughFs);

/// Passthrough acts by the process's own rights and does not look at the caller.
const PROCESS: &Caller<'static> = &Caller {
    uid: 0,
    gid: 0,
    groups: &[],
    pid: 0,
    umask: 0,
    rights: None,
};

impl ByPath {
    /// Runs `ask` on the node that `path` leads to now.
    fn at<R>(&self, path: &[u8], ask: impl FnOnce(Node) -> Result<R>) -> Result<R> {
        if path.is_empty() {
            return ask(self.0.root());
        }
        let walked = self.0.walk(PROCESS, self.0.root(), path)?;
        let entry = walked.entry.ok_or(Errno::ENOENT)?;
        if walked.parent != self.0.root() {
            self.0.forget(walked.parent, 1);
        }
        let node = entry.attributes.node;
        // A link took the place of a directory on the way.
        let answer = match walked.consumed == path.len() {
            true => ask(node),
            false => Err(Errno::ENOTDIR.into()),
        };
        self.0.forget(node, 1);
        answer
    }

    /// Runs `ask` on the directory that holds `path`, and the last name.
    fn above<R>(&self, path: &[u8], ask: impl FnOnce(Node, &[u8]) -> Result<R>) -> Result<R> {
        match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => self.at(&path[..slash], |dir| ask(dir, &path[slash + 1..])),
            None => ask(self.0.root(), path),
        }
    }

    /// The entry that a call made is not referred to any more.
    fn made(&self, entry: Result<culvert::Entry>) -> Result<()> {
        self.0.forget(entry?.attributes.node, 1);
        Ok(())
    }
}

/// Reports the node's number as the inode: it tells files of different file systems below the
/// source apart.
fn identified(attributes: Attributes) -> Attributes {
    Attributes {
        inode: attributes.node.0,
        ..attributes
    }
}

fn driven(opened: Opened) -> Result<Box<dyn File>> {
    match opened {
        Opened::Driven(file) => Ok(file),
        // The options of `open` make every file driven.
        Opened::Backed(_) => Err(Error::because(Errno::EIO, "a backed file behind paths")),
    }
}

impl PathFileSystem for ByPath {
    type Handle = Box<dyn File>;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            locks: false,
            ..self.0.capabilities()
        }
    }

    fn attributes(&self, path: &[u8]) -> Result<Attributes> {
        self.at(path, |node| {
            Ok(identified(self.0.attributes(PROCESS, node)?))
        })
    }

    fn list(&self, path: &[u8]) -> Result<Vec<PathEntry>> {
        self.at(path, |dir| {
            let mut entries = Vec::new();
            self.0.read_directory(PROCESS, dir, 0, &mut |entry| {
                entries.push(PathEntry {
                    inode: entry.inode,
                    ..PathEntry::new(entry.name, entry.kind)
                });
                true
            })?;
            Ok(entries)
        })
    }

    fn open(&self, caller: &Caller<'_>, path: &[u8], flags: OpenFlags) -> Result<Self::Handle> {
        self.at(path, |node| driven(self.0.open(caller, node, flags)?))
    }

    fn read(&self, handle: &Self::Handle, offset: u64, out: &mut [u8]) -> Result<usize> {
        let mut out = out;
        handle.read_at(offset, &mut out)
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.at(path, |node| self.0.readlink(PROCESS, node))
    }

    fn statfs(&self) -> Result<StatFs> {
        self.0.statfs()
    }

    fn access(&self, caller: &Caller<'_>, path: &[u8], access: Access) -> Result<()> {
        self.at(path, |node| self.0.access(caller, node, access))
    }

    fn handle_attributes(&self, handle: &Self::Handle) -> Option<Result<Attributes>> {
        Some(handle.attributes(PROCESS).map(identified))
    }

    fn keeps_unlinked(&self) -> bool {
        true
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<Self::Handle> {
        self.above(path, |dir, name| {
            let flags = OpenFlags(flags.0 | OpenFlags::EXCLUSIVE.0);
            let (entry, opened) = self.0.create(caller, dir, name, flags, mode)?;
            self.0.forget(entry.attributes.node, 1);
            driven(opened)
        })
    }

    fn write(&self, handle: &Self::Handle, offset: u64, bytes: &[u8]) -> Result<usize> {
        handle.write_at(offset, &mut &bytes[..])
    }

    fn append(&self, handle: &Self::Handle, _: u64, bytes: &[u8]) -> Result<(u64, usize)> {
        handle.append(&mut &bytes[..])
    }

    fn allocate(&self, handle: &Self::Handle, mode: u32, offset: u64, length: u64) -> Result<()> {
        handle.allocate(mode, offset, length)
    }

    fn seek(&self, handle: &Self::Handle, offset: u64, whence: Whence) -> Option<Result<u64>> {
        Some(handle.seek(offset, whence))
    }

    fn sync(&self, handle: &Self::Handle, data_only: bool) -> Result<()> {
        handle.sync(data_only)
    }

    fn flush(&self, handle: &Self::Handle) -> Result<()> {
        handle.flush()
    }

    fn set_attributes(
        &self,
        caller: Option<&Caller<'_>>,
        path: &[u8],
        changes: &SetAttributes,
    ) -> Result<()> {
        let caller = caller.unwrap_or(PROCESS);
        self.at(path, |node| {
            self.0.set_attributes(caller, node, changes).map(drop)
        })
    }

    fn set_handle_attributes(
        &self,
        handle: &Self::Handle,
        changes: &SetAttributes,
    ) -> Option<Result<()>> {
        Some(handle.set_attributes(PROCESS, changes).map(drop))
    }

    fn mkdir(&self, caller: &Caller<'_>, path: &[u8], mode: u32) -> Result<()> {
        self.above(path, |dir, name| {
            self.made(self.0.mkdir(caller, dir, name, mode))
        })
    }

    fn mknod(&self, caller: &Caller<'_>, path: &[u8], mode: u32, rdev: u64) -> Result<()> {
        self.above(path, |dir, name| {
            self.made(self.0.mknod(caller, dir, name, mode, rdev))
        })
    }

    fn symlink(&self, caller: &Caller<'_>, path: &[u8], target: &[u8]) -> Result<()> {
        self.above(path, |dir, name| {
            self.made(self.0.symlink(caller, dir, name, target))
        })
    }

    fn link(&self, caller: &Caller<'_>, path: &[u8], new: &[u8]) -> Result<()> {
        self.at(path, |node| {
            self.above(new, |dir, name| {
                self.made(self.0.link(caller, node, dir, name))
            })
        })
    }

    fn unlink(&self, caller: &Caller<'_>, path: &[u8]) -> Result<()> {
        self.above(path, |dir, name| self.0.unlink(caller, dir, name))
    }

    fn rmdir(&self, caller: &Caller<'_>, path: &[u8]) -> Result<()> {
        self.above(path, |dir, name| self.0.rmdir(caller, dir, name))
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: &[u8],
        to: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        self.above(from, |dir, name| {
            self.above(to, |other, new| {
                self.0.rename(caller, (dir, name), (other, new), flags)
            })
        })
    }

    fn get_xattr(&self, _: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        self.at(path, |node| self.0.get_xattr(PROCESS, node, name))
    }

    fn list_xattr(&self, _: &Caller<'_>, path: &[u8]) -> Result<Vec<u8>> {
        self.at(path, |node| self.0.list_xattr(PROCESS, node))
    }

    fn set_xattr(
        &self,
        _: &Caller<'_>,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.at(path, |node| {
            self.0.set_xattr(PROCESS, node, name, value, flags)
        })
    }

    fn remove_xattr(&self, _: &Caller<'_>, path: &[u8], name: &[u8]) -> Result<()> {
        self.at(path, |node| self.0.remove_xattr(PROCESS, node, name))
    }
}
