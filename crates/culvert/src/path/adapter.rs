//! The node-based side of a path-based driver.

use super::{
    PathFileSystem,
    changes::Place,
    file::Snapshot,
    lock::TreeLock,
    state::AdapterState,
    table::{PathTable, ROOT},
    told::Told,
};
use crate::{
    Access, Attributes, Caller, Capabilities, DirectoryEntry, DirectorySink, Entry, Errno,
    FileKind, FileSystem, Maps, Node, Observed, Observer, OpenFlags, Opened, OpenedDirectory,
    RenameFlags, Result, SetAttributes, StatFs, Validity, Walked, derived, sync::Mutex,
};
use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::AtomicBool;

/// O_CREAT and O_EXCL, by which a front end says what it was asked: to a driver that opens what is
/// there they mean nothing.
const CREATES: u32 = 0o300;

/// A [`PathFileSystem`] as a [`FileSystem`].
pub struct PathAdapter<T: PathFileSystem>(pub(super) Arc<AdapterState<T>>);

impl<T: PathFileSystem> PathAdapter<T> {
    /// The adapter of `driver`. Nothing is asked yet.
    pub fn new(driver: T) -> Self {
        Self(Arc::new(AdapterState {
            driver,
            tree: TreeLock::default(),
            table: Arc::new(Mutex::new(PathTable::new())),
            appending: Mutex::new(()),
            remembering: Mutex::new(()),
            orphaned: AtomicBool::new(false),
            held: Mutex::new(BTreeMap::new()),
        }))
    }

    /// The driver itself.
    pub fn driver(&self) -> &T {
        &self.0.driver
    }
}

impl<T: PathFileSystem + 'static> FileSystem for PathAdapter<T> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // Another process has another table: it finds a node by its path, then compares.
            transient_nodes: true,
            ..self.0.driver.capabilities()
        }
    }

    fn root(&self) -> Node {
        ROOT
    }

    fn lookup(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let _tree = self.0.tree.read();
        let path = self.0.path_in(dir, name)?;
        self.0.found(dir, name, &path)
    }

    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        // Only the first directory was known before: what others did to it since is looked at once.
        let lookup = |dir, name: &[u8]| match dir == from {
            true => self.lookup(caller, dir, name),
            false => self.0.step(dir, name),
        };
        let who = (caller, self.capabilities());
        derived::walk(who, lookup, |node| self.forget(node, 1), from, path)
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        self.0.table.lock().parent(dir)
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        let driver = &self.0.driver;
        let table = self.0.table.lock();
        match table.get(node) {
            Ok(known) if known.hidden => Err(Errno::ENOENT.into()),
            // Another process may have moved or removed it. Of a file that is dear to ask.
            Ok(known) if known.kind != FileKind::Directory || !driver.knows_moves() => {
                table.path(node)
            }
            _ => {
                drop(table);
                self.0.current_path(node)
            }
        }
    }

    fn attributes(&self, _: &Caller<'_>, node: Node) -> Result<Attributes> {
        self.0.attributes(node)
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        let capabilities = self.capabilities();
        if capabilities.checks_permissions {
            let ask = |path: &[u8]| self.0.driver.access(caller, path, access);
            match self.0.with_path(node, ask) {
                // The driver has nothing there any more: what is known of it judges.
                Err(_) if self.0.is_removed_directory(node) => {}
                // A directory above may not be searched any more: what is held of it judges.
                Err(_) if self.0.is_held_below_a_refusal(node) => {}
                answer => return answer,
            }
        }
        let attributes = self.attributes(caller, node)?;
        derived::access(caller, &attributes, access, capabilities)
    }

    fn readlink(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        match self.0.table.lock().get(node)?.kind {
            FileKind::Symlink => {}
            _ => return Err(Errno::EINVAL.into()),
        }
        self.0.with_path(node, |path| self.0.driver.readlink(path))
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let flags = OpenFlags(flags.0 & !CREATES);
        self.0.openable(node, flags)?;
        let open = |path: &[u8], after: Option<&[u8]>| {
            let handle = self.0.driver.open(caller, path, flags)?;
            AdapterState::opened(&self.0, node, handle, None, after)
        };
        // To open something else may wait, or do more; to cut it would lose its bytes.
        match self.0.driver.opens_files_only() && !flags.truncate() {
            true => self.0.open_by_path(node, |path| open(path, Some(path))),
            false => self.0.with_path(node, |path| open(path, None)),
        }
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        self.0.openable(node, flags)?;
        let flags = OpenFlags(flags.0 & !CREATES).without(OpenFlags::TRUNCATE);
        self.0.with_path(node, |path| {
            let handle = self.0.driver.restore(caller, path, flags, state)?;
            AdapterState::opened(&self.0, node, handle, None, None)
        })
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        _: OpenFlags,
    ) -> Result<OpenedDirectory> {
        if self.0.table.lock().get(dir)?.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let open = |path: &[u8]| self.0.driver.open_directory(caller, path);
        let kept = match self.0.with_path(dir, open) {
            // It can be opened, and has no entries to be read (ENOENT).
            Err(_) if self.0.is_removed_directory(dir) => None,
            kept => kept?,
        };
        let snapshot = Snapshot::new(Arc::clone(&self.0), dir, kept);
        Ok(OpenedDirectory::Driven(Box::new(snapshot)))
    }

    fn read_directory(
        &self,
        _: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        for (position, entry) in self.0.list(dir)? {
            let entry = DirectoryEntry {
                inode: entry.inode,
                next: position,
                kind: entry.kind,
                name: &entry.name,
            };
            if position > from && !sink(entry) {
                break;
            }
        }
        Ok(())
    }

    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        self.0.sync_directory(dir, data_only)
    }

    fn sync(&self) -> Result<()> {
        self.0.driver.sync_all()
    }

    fn statfs(&self) -> Result<StatFs> {
        self.0.driver.statfs()
    }

    fn validity(&self) -> Validity {
        self.0.driver.validity()
    }

    fn observe(&self, observer: Arc<dyn Observer>) -> Observed {
        let told = Told::new(Arc::downgrade(&self.0.table), observer);
        match self.0.driver.observe(Arc::new(told)) {
            true => Observed::Told,
            false => Observed::Never,
        }
    }

    fn extended(&self, maps: Arc<dyn Maps>) -> Result<()> {
        self.0.driver.extended(maps)
    }

    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.0
            .with_path(node, |path| self.0.driver.get_xattr(caller, path, name))
    }

    fn list_xattr(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.0
            .with_path(node, |path| self.0.driver.list_xattr(caller, path))
    }

    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.0.may_change()?;
        self.0.with_path(node, |path| {
            self.0.driver.set_xattr(caller, path, name, value, flags)
        })
    }

    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        self.0.may_change()?;
        self.0
            .with_path(node, |path| self.0.driver.remove_xattr(caller, path, name))
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        self.0.change(Some(caller), node, changes)
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let state = &self.0;
        state.may_change()?;
        let _tree = state.tree.read();
        let path = state.path_in(dir, name)?;
        loop {
            let handle = match state.driver.create(caller, &path, flags, mode) {
                Err(error) if error.errno() != Errno::EEXIST || flags.exclusive() => {
                    return Err(error);
                }
                Err(_) => None,
                Ok(handle) => Some(handle),
            };
            let own = handle
                .as_ref()
                .and_then(|handle| state.driver.handle_attributes(handle))
                .and_then(Result::ok);
            // What says which file it is was made under this name, and has it unless others have
            // removed it.
            let found = match own.filter(|own| own.inode != 0 && own.links != 0) {
                Some(own) => state.bound(dir, name, own),
                None => state.found(dir, name, &path),
            };
            let entry = match found {
                // Gone again, by another process: make it after all.
                Err(error) if error.errno() == Errno::ENOENT && handle.is_none() => continue,
                Err(error) if error.errno() == Errno::ENOENT => {
                    let last = own.unwrap_or(Attributes::new(FileKind::Regular, mode));
                    state.nameless(&path, last)
                }
                // Replaced by another process: what was made is open.
                Ok(entry) if own.is_some_and(|own| is_another(&own, &entry.attributes)) => {
                    state.table.lock().forget(entry.attributes.node, 1);
                    let last = own.unwrap_or(Attributes::new(FileKind::Regular, mode));
                    state.nameless(&path, last)
                }
                entry => entry?,
            };
            let node = entry.attributes.node;
            let open = || {
                state.openable(node, flags)?;
                let read = if flags.read() { Access::READ.0 } else { 0 };
                let write = if flags.write() { Access::WRITE.0 } else { 0 };
                let wanted = Access(read | write);
                let capabilities = state.driver.capabilities();
                match capabilities.checks_permissions {
                    true => state.driver.access(caller, &path, wanted)?,
                    false => derived::access(caller, &entry.attributes, wanted, capabilities)?,
                }
                // What exists is opened only.
                let flags = OpenFlags(flags.0 & !CREATES);
                state.driver.open(caller, &path, flags)
            };
            let opened = handle.map_or_else(open, Ok);
            let opened =
                opened.and_then(|handle| AdapterState::opened(state, node, handle, own, None));
            let opened = opened.inspect_err(|_| state.table.lock().forget(node, 1))?;
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

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        self.0.make(dir, name, FileKind::Directory, |path| {
            self.0.driver.mkdir(caller, path, mode)
        })
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        let kind = FileKind::of_mode(mode).unwrap_or(FileKind::Regular);
        self.0.make(dir, name, kind, |path| {
            self.0.driver.mknod(caller, path, mode, rdev)
        })
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        self.0.make(dir, name, FileKind::Symlink, |path| {
            self.0.driver.symlink(caller, path, target)
        })
    }

    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        let state = &self.0;
        state.may_change()?;
        let _tree = state.tree.read();
        let path = state.path_in(dir, name)?;
        let old = {
            let table = state.table.lock();
            match table.get(node)? {
                known if known.kind == FileKind::Directory => return Err(Errno::EPERM.into()),
                known if known.hidden => return Err(Errno::ENOENT.into()),
                _ => table.path(node)?,
            }
        };
        state.driver.link(caller, &old, &path)?;
        state.found(dir, name, &path)
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let state = &self.0;
        state.may_change()?;
        let _tree = state.tree.write();
        state.may_orphan((dir, name));
        let (path, is) = state.at((dir, name))?;
        let is = is.ok_or(Errno::ENOENT)?;
        if is.kind == FileKind::Directory {
            return Err(Errno::EISDIR.into());
        }
        if state.hide(caller, (dir, name), &path)?.is_none() {
            state.driver.unlink(caller, &path)?;
            state.table.lock().unbind(dir, name, Some(is));
        }
        Ok(())
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let state = &self.0;
        state.may_change()?;
        let _tree = state.tree.write();
        let (path, is) = state.at((dir, name))?;
        let is = is.ok_or(Errno::ENOENT)?;
        if is.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        state.driver.rmdir(caller, &path)?;
        state.table.lock().unbind(dir, name, Some(is));
        Ok(())
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let state = &self.0;
        state.may_change()?;
        let _tree = state.tree.write();
        state.may_orphan(to);
        let (old, moved) = state.at(from)?;
        let (new, replaced) = state.at(to)?;
        let moved = moved.ok_or(Errno::ENOENT)?;
        {
            let table = state.table.lock();
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
            true => state.hide(caller, to, &new)?,
            false => None,
        };
        if let Err(error) = state.driver.rename(caller, &old, &new, flags) {
            if let Some(hidden) = hidden {
                state.unhide(caller, (to.0, &hidden), to, &new);
            }
            return Err(error);
        }
        let mut table = state.table.lock();
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

    fn forget(&self, node: Node, count: u64) {
        self.0.table.lock().forget(node, count);
    }

    fn hold(&self, node: Node) -> Result<()> {
        // As an open file: the node stays in the table when its names and references go.
        self.0.table.lock().get_mut(node)?.opens += 1;
        self.0.take_hold(node);
        Ok(())
    }

    fn release(&self, node: Node) {
        self.0.closed(node);
    }

    fn forked(&self, shared_descriptors: bool) {
        self.0.driver.forked(shared_descriptors);
    }

    fn finish(&self) {
        self.0.driver.finish();
    }
}

/// Whether two answers of a driver that reports inodes are about two files.
fn is_another(one: &Attributes, other: &Attributes) -> bool {
    one.inode != 0 && other.inode != 0 && (one.inode, one.kind) != (other.inode, other.kind)
}
