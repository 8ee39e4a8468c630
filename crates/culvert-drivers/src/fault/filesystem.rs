//! The file system under the layer.

use super::file::FaultFile;
use super::operation::{Operation, Operations};
use super::rules::{Rules, Selected};
use crate::{DescriptorFile, Keeper, unhindered};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use culvert::{
    Access, Attributes, Caller, DirectoryPlusSink, DirectorySink, Entry, Errno, FileKind,
    FileSystem, Layer, LayeredFile, Node, OpenFlags, Opened, OpenedDirectory, RenameFlags, Result,
    SetAttributes, StatFs, Validity, Walked,
};

/// A file system under rules.
pub struct FaultFs {
    inner: Box<dyn FileSystem>,
    rules: Arc<Rules>,
    keeper: Keeper,
}

/// What a walk, or a listing with attributes, consists of.
const LOOKUP: Operations = Operations::of(&[Operation::Lookup]);
const LISTING: Operations = LOOKUP.with(Operations::of(&[Operation::ReadDirectory]));

impl FaultFs {
    /// `inner`, under `rules`; `keeper` keeps the descriptors of files that `inner` would have
    /// given away.
    pub fn new(inner: Box<dyn FileSystem>, rules: Rules, keeper: Keeper) -> Self {
        Self {
            inner,
            rules: Arc::new(rules),
            keeper,
        }
    }

    /// The path of `node` from the root of the mount, as rules see it.
    fn path_of(&self, node: Node) -> Option<Vec<u8>> {
        let below = self.inner.path_of(node).ok()?;
        Some([b"/", &below[..]].concat())
    }

    fn path_at(&self, dir: Node, name: &[u8]) -> Option<Vec<u8>> {
        let mut path = self.path_of(dir)?;
        if path.len() > 1 {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Some(path)
    }

    fn select(&self, operation: Operation, path: impl FnOnce() -> Option<Vec<u8>>) -> Selected {
        self.rules.select(Operations::of(&[operation]), path)
    }

    /// Lets `operation` on `node` meet the rules.
    #[inline]
    fn on(&self, operation: Operation, node: Node) -> Result<()> {
        if !self.rules.are_about(Operations::of(&[operation])) {
            return Ok(());
        }
        let selected = self.select(operation, || self.path_of(node));
        self.rules.pass(operation, selected)
    }

    /// Lets `operation` on `name` in `dir` meet the rules.
    #[inline]
    fn at(&self, operation: Operation, dir: Node, name: &[u8]) -> Result<()> {
        if !self.rules.are_about(Operations::of(&[operation])) {
            return Ok(());
        }
        let selected = self.select(operation, || self.path_at(dir, name));
        self.rules.pass(operation, selected)
    }
}

impl Layer for FaultFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    /// Only files that a rule is about are watched; one that is a descriptor of the kernel's is
    /// driven then.
    fn opened(&self, node: Node, _flags: OpenFlags, opened: Opened) -> Opened {
        if !self.rules.are_about(Operations::FILE) {
            return opened;
        }
        let selected = self.rules.select(Operations::FILE, || self.path_of(node));
        if selected == Selected(0) {
            return opened;
        }
        let file = match opened {
            Opened::Driven(file) => file,
            Opened::Backed(fd) => {
                let inode = self
                    .inner
                    .attributes(node)
                    .map_or(node.0, |found| found.inode);
                let descriptor = unhindered(fd);
                Box::new(DescriptorFile::new(descriptor, self.keeper, node, inode))
            }
        };
        let rules = Arc::clone(&self.rules);
        Opened::Driven(Box::new(LayeredFile(FaultFile::new(file, rules, selected))))
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        self.at(Operation::Lookup, dir, name)?;
        self.inner.lookup(caller, dir, name)
    }

    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        if !self.rules.are_about(LOOKUP) {
            return self.inner.walk(caller, from, path);
        }
        // One component: the transport goes on from there.
        let name = path.split(|&byte| byte == b'/').next().unwrap_or(path);
        let entry = self.lookup(caller, from, name)?;
        let leads_on = matches!(
            entry.attributes.kind,
            FileKind::Directory | FileKind::Symlink
        );
        if name.len() < path.len() && !leads_on {
            self.inner.forget(entry.attributes.node, 1);
            return Err(Errno::ENOTDIR.into());
        }
        Ok(Walked {
            entry: Some(entry),
            parent: from,
            consumed: name.len(),
        })
    }

    fn attributes(&self, node: Node) -> Result<Attributes> {
        self.on(Operation::Attributes, node)?;
        self.inner.attributes(node)
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        self.on(Operation::Access, node)?;
        self.inner.access(caller, node, access)
    }

    fn readlink(&self, node: Node) -> Result<Vec<u8>> {
        self.on(Operation::Readlink, node)?;
        self.inner.readlink(node)
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        self.on(Operation::Open, node)?;
        Ok(self.opened(node, flags, self.inner.open(caller, node, flags)?))
    }

    fn hold(&self, node: Node) -> Result<()> {
        self.inner.hold(node)
    }

    fn release(&self, node: Node) {
        self.inner.release(node);
    }

    fn is_open_for_writing(&self, node: Node) -> Result<bool> {
        self.inner.is_open_for_writing(node)
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        self.on(Operation::Restore, node)?;
        let opened = self.inner.restore(caller, node, flags, state)?;
        Ok(self.opened(node, flags, opened))
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        self.on(Operation::OpenDirectory, dir)?;
        self.inner.open_directory(caller, dir, flags)
    }

    fn read_directory(&self, dir: Node, from: u64, sink: &mut DirectorySink<'_>) -> Result<()> {
        self.on(Operation::ReadDirectory, dir)?;
        self.inner.read_directory(dir, from, sink)
    }

    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        if !self.rules.are_about(LISTING) {
            return self.inner.read_directory_plus(caller, dir, from, sink);
        }
        self.read_directory(dir, from, &mut |entry| {
            let found = self.lookup(caller, dir, entry.name).ok();
            let taken = sink(entry, found);
            if let (false, Some(found)) = (taken, found) {
                self.inner.forget(found.attributes.node, 1);
            }
            taken
        })
    }

    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        self.on(Operation::SyncDirectory, dir)?;
        self.inner.sync_directory(dir, data_only)
    }

    fn statfs(&self) -> Result<StatFs> {
        self.on(Operation::Statfs, self.inner.root())?;
        self.inner.statfs()
    }

    /// Not at all where a rule is about what would be believed.
    fn validity(&self) -> Validity {
        let believed = LOOKUP.with(Operations::of(&[
            Operation::Attributes,
            Operation::Readlink,
            Operation::Open,
            Operation::OpenDirectory,
            Operation::ReadDirectory,
        ]));
        match self.rules.are_about(believed) {
            true => Validity::NONE,
            false => self.inner.validity(),
        }
    }

    fn get_xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.on(Operation::GetXattr, node)?;
        self.inner.get_xattr(node, name)
    }

    fn list_xattr(&self, node: Node) -> Result<Vec<u8>> {
        self.on(Operation::ListXattr, node)?;
        self.inner.list_xattr(node)
    }

    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.on(Operation::SetXattr, node)?;
        self.inner.set_xattr(caller, node, name, value, flags)
    }

    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        self.on(Operation::RemoveXattr, node)?;
        self.inner.remove_xattr(caller, node, name)
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        self.on(Operation::SetAttributes, node)?;
        self.inner.set_attributes(caller, node, changes)
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.at(Operation::Create, dir, name)?;
        let (entry, opened) = self.inner.create(caller, dir, name, flags, mode)?;
        Ok((entry, self.opened(entry.attributes.node, flags, opened)))
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        self.at(Operation::Mkdir, dir, name)?;
        self.inner.mkdir(caller, dir, name, mode)
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        self.at(Operation::Mknod, dir, name)?;
        self.inner.mknod(caller, dir, name, mode, rdev)
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        self.at(Operation::Symlink, dir, name)?;
        self.inner.symlink(caller, dir, name, target)
    }

    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        self.at(Operation::Link, dir, name)?;
        self.inner.link(caller, node, dir, name)
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.at(Operation::Unlink, dir, name)?;
        self.inner.unlink(caller, dir, name)
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.at(Operation::Rmdir, dir, name)?;
        self.inner.rmdir(caller, dir, name)
    }

    /// A rule is about a rename when it is about either name.
    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let operation = Operation::Rename;
        if self.rules.are_about(Operations::of(&[operation])) {
            let old = self.select(operation, || self.path_at(from.0, from.1));
            let new = self.select(operation, || self.path_at(to.0, to.1));
            self.rules.pass(operation, Selected(old.0 | new.0))?;
        }
        self.inner.rename(caller, from, to, flags)
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.on(Operation::Tmpfile, dir)?;
        let (entry, opened) = self.inner.tmpfile(caller, dir, flags, mode)?;
        Ok((entry, self.opened(entry.attributes.node, flags, opened)))
    }

    fn sync(&self) -> Result<()> {
        self.on(Operation::Sync, self.inner.root())?;
        self.inner.sync()
    }
}
