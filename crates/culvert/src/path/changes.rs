//! The node-based side of a path-based driver: changes.

use super::{PathFileSystem, adapter::Shared, table::HIDDEN};
use crate::{
    Access, Attributes, Caller, Entry, Errno, FileKind, Node, OpenFlags, Opened, RenameFlags,
    Result, SetAttributes, derived,
};
use alloc::{format, sync::Arc, vec::Vec};

type Place<'a> = (Node, &'a [u8]);

impl<T: PathFileSystem> Shared<T> {
    pub(super) fn may_change(&self) -> Result<()> {
        match self.driver.capabilities().read_only {
            true => Err(Errno::EROFS.into()),
            false => Ok(()),
        }
    }

    /// Whether `node` is a regular file that `flags` may open.
    pub(super) fn openable(&self, node: Node, flags: OpenFlags) -> Result<()> {
        match self.table.lock().get(node)?.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR.into()),
            FileKind::Symlink => return Err(Errno::ELOOP.into()),
            _ => return Err(Errno::ENXIO.into()),
        }
        match flags.write() || flags.truncate() {
            true => self.may_change(),
            false => Ok(()),
        }
    }

    pub(super) fn change(
        &self,
        caller: Option<&Caller<'_>>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        self.may_change()?;
        match (changes.size, self.table.lock().get(node)?.kind) {
            (None, _) | (_, FileKind::Regular) => {}
            (_, FileKind::Directory) => return Err(Errno::EISDIR.into()),
            _ => return Err(Errno::EINVAL.into()),
        }
        self.with_path(node, |path| {
            self.driver.set_attributes(caller, path, changes)
        })?;
        self.attributes(node)
    }

    /// Makes `name`, of this `kind`, in `dir` with `make`, which fails if it exists. What another
    /// process has removed or replaced by the time that it is looked up was made all the same.
    pub(super) fn make(
        &self,
        dir: Node,
        name: &[u8],
        kind: FileKind,
        make: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Entry> {
        self.may_change()?;
        let _tree = self.tree.read();
        let path = self.path_in(dir, name)?;
        make(&path)?;
        match self.found(dir, name, &path) {
            Ok(entry) if entry.attributes.kind == kind => Ok(entry),
            Ok(another) => {
                self.table.lock().forget(another.attributes.node, 1);
                Ok(self.nameless(&path, Attributes::new(kind, 0)))
            }
            Err(error) if error.errno() == Errno::ENOENT => {
                Ok(self.nameless(&path, Attributes::new(kind, 0)))
            }
            failed => failed,
        }
    }

    /// The entry of what was made at `path` and has lost its name since.
    fn nameless(&self, path: &[u8], attributes: Attributes) -> Entry {
        let node = self.table.lock().nameless(path, attributes);
        let inode = match attributes.inode {
            0 => node.0,
            inode => inode,
        };
        let attributes = Attributes {
            node,
            inode,
            links: 0,
            ..attributes
        };
        Entry { attributes }
    }

    pub(super) fn create(
        shared: &Arc<Self>,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)>
    where
        T: 'static,
    {
        shared.may_change()?;
        let _tree = shared.tree.read();
        let path = shared.path_in(dir, name)?;
        loop {
            let handle = match shared.driver.create(caller, &path, flags, mode) {
                Err(error) if error.errno() != Errno::EEXIST || flags.exclusive() => {
                    return Err(error);
                }
                Err(_) => None,
                Ok(handle) => Some(handle),
            };
            let own = handle
                .as_ref()
                .and_then(|handle| shared.driver.handle_attributes(handle))
                .and_then(Result::ok);
            let entry = match shared.found(dir, name, &path) {
                // Gone again, by another process: make it after all.
                Err(error) if error.errno() == Errno::ENOENT && handle.is_none() => continue,
                Err(error) if error.errno() == Errno::ENOENT => {
                    let last = own.unwrap_or(Attributes::new(FileKind::Regular, mode));
                    shared.nameless(&path, last)
                }
                // Replaced by another process: what was made is open.
                Ok(entry) if own.is_some_and(|own| is_another(&own, &entry.attributes)) => {
                    shared.table.lock().forget(entry.attributes.node, 1);
                    let last = own.unwrap_or(Attributes::new(FileKind::Regular, mode));
                    shared.nameless(&path, last)
                }
                entry => entry?,
            };
            let node = entry.attributes.node;
            let open = || {
                shared.openable(node, flags)?;
                let read = if flags.read() { Access::READ.0 } else { 0 };
                let write = if flags.write() { Access::WRITE.0 } else { 0 };
                let wanted = Access(read | write);
                let capabilities = shared.driver.capabilities();
                match capabilities.checks_permissions {
                    true => shared.driver.access(caller, &path, wanted)?,
                    false => derived::access(caller, &entry.attributes, wanted, capabilities)?,
                }
                shared.driver.open(caller, &path, flags)
            };
            let opened = handle.map_or_else(open, Ok);
            let opened = opened.and_then(|handle| Self::opened(shared, node, handle));
            let opened = opened.inspect_err(|_| shared.table.lock().forget(node, 1))?;
            let size = if flags.truncate() {
                0
            } else {
                entry.attributes.size
            };
            let attributes = Attributes {
                size,
                ..entry.attributes
            };
            return Ok((Entry { attributes }, opened));
        }
    }

    pub(super) fn link(
        &self,
        caller: &Caller<'_>,
        node: Node,
        dir: Node,
        name: &[u8],
    ) -> Result<Entry> {
        self.may_change()?;
        let _tree = self.tree.read();
        let path = self.path_in(dir, name)?;
        let old = {
            let table = self.table.lock();
            match table.get(node)? {
                known if known.kind == FileKind::Directory => return Err(Errno::EPERM.into()),
                known if known.hidden => return Err(Errno::ENOENT.into()),
                _ => table.path(node)?,
            }
        };
        self.driver.link(caller, &old, &path)?;
        self.found(dir, name, &path)
    }

    /// What `place` holds now, if anything: its path and attributes. The tree must be held.
    fn at(&self, (dir, name): Place<'_>) -> Result<(Vec<u8>, Option<Attributes>)> {
        let path = self.path_in(dir, name)?;
        match self.driver.attributes(&path) {
            Ok(attributes) => {
                let mut table = self.table.lock();
                // Bound only if it was known, so that nothing is kept for it.
                if table.child(dir, name).is_some() {
                    table.bind(dir, name, &attributes)?;
                }
                Ok((path, Some(attributes)))
            }
            Err(error) if error.errno() == Errno::ENOENT => Ok((path, None)),
            Err(error) => Err(error),
        }
    }

    /// Gets the file at `place` out of the way of its removal, when it is open under no other name
    /// and the driver cannot keep it so. Returns the name it has then. The tree must be held for
    /// writing.
    fn hide(
        &self,
        caller: &Caller<'_>,
        (dir, name): Place<'_>,
        path: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        if self.driver.keeps_unlinked() {
            return Ok(None);
        }
        let (node, hidden, target) = {
            let table = self.table.lock();
            let Some(node) = table.child(dir, name) else {
                return Ok(None);
            };
            if table.get(node)?.opens == 0 || table.has_other_names(node, dir, name) {
                return Ok(None);
            }
            let hidden = [HIDDEN, format!("{:016x}", node.0).as_bytes()].concat();
            let target = table.path_in(dir, &hidden)?;
            (node, hidden, target)
        };
        self.driver
            .rename(caller, path, &target, RenameFlags::default())?;
        let mut table = self.table.lock();
        table.rename((dir, name), (dir, &hidden));
        table.get_mut(node)?.hidden = true;
        Ok(Some(hidden))
    }

    pub(super) fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.may_change()?;
        let _tree = self.tree.write();
        let (path, is) = self.at((dir, name))?;
        let is = is.ok_or(Errno::ENOENT)?;
        if is.kind == FileKind::Directory {
            return Err(Errno::EISDIR.into());
        }
        if self.hide(caller, (dir, name), &path)?.is_none() {
            self.driver.unlink(caller, &path)?;
            self.table.lock().unbind(dir, name, Some(is));
        }
        Ok(())
    }

    /// A description of `node` is closed. With the last one a hidden file goes.
    pub(super) fn closed(&self, node: Node) {
        // Removing a hidden file is our own doing, whoever closes it.
        const NOBODY: &Caller<'static> = &Caller {
            uid: 0,
            gid: 0,
            groups: &[],
            pid: 0,
            umask: 0,
            rights: None,
        };
        {
            let mut table = self.table.lock();
            let Ok(known) = table.get_mut(node) else {
                return;
            };
            known.opens = known.opens.saturating_sub(1);
            if known.opens > 0 || !known.hidden {
                return table.drop_unused(node);
            }
        }
        let _tree = self.tree.write();
        let (path, dir, name) = {
            let table = self.table.lock();
            // It may have been opened again, by its node, before the tree was ours.
            match (table.get(node), table.path(node), table.name(node)) {
                (Ok(known), Ok(path), Some((dir, name))) if known.opens == 0 && known.hidden => {
                    (path, dir, name)
                }
                _ => return,
            }
        };
        let last = self.driver.attributes(&path).ok();
        // What cannot be removed now stays under its hidden name; there is nobody to tell.
        let _ = self.driver.unlink(NOBODY, &path);
        self.table.lock().unbind(dir, &name, last);
    }

    pub(super) fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.may_change()?;
        let _tree = self.tree.write();
        let (path, is) = self.at((dir, name))?;
        let is = is.ok_or(Errno::ENOENT)?;
        if is.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        self.driver.rmdir(caller, &path)?;
        self.table.lock().unbind(dir, name, Some(is));
        Ok(())
    }

    pub(super) fn rename(
        &self,
        caller: &Caller<'_>,
        from: Place<'_>,
        to: Place<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        self.may_change()?;
        let _tree = self.tree.write();
        let (old, moved) = self.at(from)?;
        let (new, replaced) = self.at(to)?;
        let moved = moved.ok_or(Errno::ENOENT)?;
        {
            let table = self.table.lock();
            let below = |dir, place: Place<'_>| {
                let above = table.child(place.0, place.1);
                above.is_some_and(|above| table.is_below(dir, above))
            };
            if moved.kind == FileKind::Directory && below(to.0, from)
                || flags.exchange() && below(from.0, to)
            {
                return Err(Errno::EINVAL.into());
            }
            if from == to && !flags.no_replace() {
                return Ok(());
            }
        }
        let one_file = replaced.is_some_and(|r| r.inode != 0 && r.inode == moved.inode);
        let replaces = replaced.is_some_and(|r| r.kind != FileKind::Directory)
            && moved.kind != FileKind::Directory
            && flags.0 == 0
            && !one_file;
        let hidden = match replaces {
            true => self.hide(caller, to, &new)?,
            false => None,
        };
        if let Err(error) = self.driver.rename(caller, &old, &new, flags) {
            if let Some(hidden) = hidden {
                self.unhide(caller, (to.0, &hidden), to, &new);
            }
            return Err(error);
        }
        let mut table = self.table.lock();
        if flags.exchange() {
            table.exchange(from, to);
        } else if !one_file {
            if hidden.is_none() {
                table.unbind(to.0, to.1, replaced);
            }
            table.rename(from, to);
        }
        Ok(())
    }

    /// Takes back [`Shared::hide`], when the removal did not come to be.
    fn unhide(&self, caller: &Caller<'_>, from: Place<'_>, to: Place<'_>, path: &[u8]) {
        let hidden = self.table.lock().path_in(from.0, from.1);
        let back = hidden.and_then(|hidden| {
            self.driver
                .rename(caller, &hidden, path, RenameFlags::default())
        });
        if back.is_ok() {
            let mut table = self.table.lock();
            table.rename(from, to);
            if let Some(node) = table.child(to.0, to.1)
                && let Ok(known) = table.get_mut(node)
            {
                known.hidden = false;
            }
        }
    }
}

/// Whether two answers of a driver that reports inodes are about two files.
fn is_another(one: &Attributes, other: &Attributes) -> bool {
    one.inode != 0 && other.inode != 0 && (one.inode, one.kind) != (other.inode, other.kind)
}
