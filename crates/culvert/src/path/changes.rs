//! What changes of a path-based driver are made of.

use super::{
    PathFileSystem,
    state::{AdapterState, is_out_of_reach},
    table::HIDDEN,
};
use crate::{
    Attributes, Caller, Entry, Errno, FileKind, Node, OpenFlags, RenameFlags, Result, SetAttributes,
};
use alloc::{format, vec::Vec};
use core::sync::atomic::Ordering::SeqCst;

pub(super) type Place<'a> = (Node, &'a [u8]);

impl<T: PathFileSystem> AdapterState<T> {
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
        let done = self.with_path(node, |path| {
            self.driver.set_attributes(caller, path, changes)
        });
        match (done, self.held(node)) {
            (Err(error), Some(held))
                if error.errno() == Errno::ESTALE || is_out_of_reach(&error) =>
            {
                let done = self.driver.set_handle_attributes(&held, changes);
                done.unwrap_or(Err(error))?;
            }
            (done, _) => done?,
        }
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
    pub(super) fn nameless(&self, path: &[u8], attributes: Attributes) -> Entry {
        self.orphaned.store(true, SeqCst);
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

    /// What `place` holds now, if anything: its path and attributes. The tree must be held.
    pub(super) fn at(&self, (dir, name): Place<'_>) -> Result<(Vec<u8>, Option<Attributes>)> {
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

    /// The name at `place` is about to go, and with it the last of an open file, perhaps. To be
    /// said before the driver is asked what the file is: who has changed it and did not see this
    /// has changed it before that. The tree must be held for writing.
    pub(super) fn may_orphan(&self, (dir, name): Place<'_>) {
        let table = self.table.lock();
        let node = table.child(dir, name).and_then(|node| table.get(node).ok());
        if self.driver.keeps_unlinked() && node.is_some_and(|known| known.opens > 0) {
            self.orphaned.store(true, SeqCst);
        }
    }

    /// Gets the file at `place` out of the way of its removal, when it is open under no other name
    /// and the driver cannot keep it so. Returns the name it has then. The tree must be held for
    /// writing.
    pub(super) fn hide(
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

    /// A description of `node` is closed. With the last one a hidden file goes.
    pub(super) fn closed(&self, node: Node) {
        // Removing a hidden file is our own doing, whoever closes it.
        let _held;
        {
            let mut table = self.table.lock();
            let Ok(known) = table.get_mut(node) else {
                return;
            };
            known.opens = known.opens.saturating_sub(1);
            _held = match known.opens {
                0 if known.kind == FileKind::Directory => self.held.lock().remove(&node),
                _ => None,
            };
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
        let _ = self.driver.unlink(&Caller::SYSTEM, &path);
        self.table.lock().unbind(dir, &name, last);
    }

    /// Takes back [`AdapterState::hide`], when the removal did not come to be.
    pub(super) fn unhide(&self, caller: &Caller<'_>, from: Place<'_>, to: Place<'_>, path: &[u8]) {
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
