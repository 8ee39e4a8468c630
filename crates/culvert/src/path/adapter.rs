//! The node-based side of a path-based driver: finding, reading, opening.

use super::{
    PathEntry, PathFileSystem,
    file::{PathFile, Snapshot},
    lock::TreeLock,
    table::{HIDDEN, ROOT, Table},
};
use crate::{
    Access, Attributes, Caller, Capabilities, DirectoryEntry, DirectorySink, Entry, Errno,
    FileKind, FileSystem, Node, OpenFlags, Opened, OpenedDirectory, RenameFlags, Result,
    SetAttributes, StatFs, Walked, derived, sync::Mutex,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};

/// A [`PathFileSystem`] as a [`FileSystem`].
pub struct PathAdapter<T: PathFileSystem>(pub(super) Arc<Shared<T>>);

pub(super) struct Shared<T> {
    pub(super) driver: T,
    /// Held for reading while a path is in use, for writing while names change: a path never goes
    /// stale between being made and being used.
    pub(super) tree: TreeLock,
    /// Held for moments only, never during a call of the driver.
    pub(super) table: Mutex<Table>,
    /// Held from finding the end of a file to writing there.
    pub(super) appending: Mutex<()>,
}

impl<T: PathFileSystem> PathAdapter<T> {
    /// The adapter of `driver`. Nothing is asked yet.
    pub fn new(driver: T) -> Self {
        Self(Arc::new(Shared {
            driver,
            tree: TreeLock::default(),
            table: Mutex::new(Table::new()),
            appending: Mutex::new(()),
        }))
    }

    /// The driver itself.
    pub fn driver(&self) -> &T {
        &self.0.driver
    }
}

impl<T: PathFileSystem> Shared<T> {
    /// The driver's attributes of `node`, completed. The tree must be held.
    fn complete(&self, node: Node, attributes: Attributes) -> Attributes {
        let inode = match attributes.inode {
            0 => node.0,
            inode => inode,
        };
        Attributes {
            node,
            inode,
            ..attributes
        }
    }

    /// Attributes of a node wherever it is now: named, hidden, or gone.
    pub(super) fn attributes(&self, node: Node) -> Result<Attributes> {
        let _tree = self.tree.read();
        let (path, hidden) = {
            let table = self.table.lock();
            if let Some(last) = table.removed(node)? {
                return Ok(self.complete(node, last));
            }
            (table.path(node), table.get(node)?.hidden)
        };
        let mut attributes = self.by_path(path, |path| {
            let found = self.driver.attributes(path)?;
            self.table.lock().compare(node, &found)?;
            Ok(found)
        })?;
        if hidden {
            attributes.links = 0;
        }
        Ok(self.complete(node, attributes))
    }

    /// What an open file said of itself, completed: without links once it has lost its name.
    pub(super) fn own_attributes(&self, node: Node, own: Attributes) -> Result<Attributes> {
        let table = self.table.lock();
        let links = match (table.get(node)?.hidden, table.removed(node)?) {
            (false, None) => own.links,
            // It lost a name that was not its last one.
            (false, Some(last)) if last.links > 0 => own.links,
            _ => 0,
        };
        Ok(self.complete(node, Attributes { links, ..own }))
    }

    /// What the driver says of a node's path; a node that has lost it is `ESTALE`.
    fn by_path<R>(&self, path: Result<Vec<u8>>, ask: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        match path.and_then(|path| ask(&path)) {
            Err(error) if error.errno() == Errno::ENOENT => Err(Errno::ESTALE.into()),
            result => result,
        }
    }

    /// Runs `ask` with the path of `node`, which stays its path meanwhile as far as this process
    /// goes; `ESTALE` when another process has put something else there.
    pub(super) fn with_path<R>(
        &self,
        node: Node,
        ask: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        let _tree = self.tree.read();
        let path = self.table.lock().path(node);
        self.by_path(path, |path| {
            self.verify(node, path)?;
            ask(path)
        })
    }

    /// Asks the driver whether `path` still leads to `node`: other processes rename, too. A driver
    /// that reports no inodes cannot tell. The tree must be held.
    fn verify(&self, node: Node, path: &[u8]) -> Result<()> {
        let known = node != ROOT && self.table.lock().is_identified(node)?;
        if !known || self.driver.capabilities().immutable {
            return Ok(());
        }
        let found = self.driver.attributes(path)?;
        self.table.lock().compare(node, &found)
    }

    /// Binds what the driver has under `path`, which is `name` in `dir`, and gives one reference.
    /// The tree must be held.
    pub(super) fn found(&self, dir: Node, name: &[u8], path: &[u8]) -> Result<Entry> {
        let attributes = match self.driver.attributes(path) {
            Ok(attributes) => attributes,
            Err(error) => {
                if error.errno() == Errno::ENOENT {
                    self.table.lock().unbind(dir, name, None);
                }
                return Err(error);
            }
        };
        let mut table = self.table.lock();
        let node = table.bind(dir, name, &attributes)?;
        table.reference(node);
        let attributes = self.complete(node, attributes);
        Ok(Entry { attributes })
    }

    /// The path of `name` in `dir`; our own names are not there for anyone. `ESTALE` when the path
    /// of `dir` leads to something else by now.
    pub(super) fn path_in(&self, dir: Node, name: &[u8]) -> Result<Vec<u8>> {
        let path = self.path_below(dir, name)?;
        let above = self.table.lock().path(dir);
        self.by_path(above, |above| self.verify(dir, above))?;
        Ok(path)
    }

    /// The same of a directory that was just looked up.
    fn path_below(&self, dir: Node, name: &[u8]) -> Result<Vec<u8>> {
        let path = self.table.lock().path_in(dir, name)?;
        match name.starts_with(HIDDEN) {
            true => Err(Errno::ENOENT.into()),
            false => Ok(path),
        }
    }

    /// A lookup in a directory that was just looked up.
    fn step(&self, dir: Node, name: &[u8]) -> Result<Entry> {
        let _tree = self.tree.read();
        let path = self.path_below(dir, name)?;
        self.found(dir, name, &path)
    }

    /// `handle` of `node` as an open file.
    pub(super) fn opened(shared: &Arc<Self>, node: Node, handle: T::Handle) -> Result<Opened>
    where
        T: 'static,
    {
        // By its path another file may have been opened, that took the name meanwhile.
        if let Some(Ok(own)) = shared.driver.handle_attributes(&handle) {
            shared.table.lock().compare(node, &own)?;
        }
        shared.table.lock().get_mut(node)?.opens += 1;
        let file = PathFile::new(Arc::clone(shared), node, handle);
        Ok(Opened::Driven(Box::new(file)))
    }

    /// The names in `dir`, each with its inode, sorted by a position that depends on the name
    /// alone.
    pub(super) fn list(&self, dir: Node) -> Result<Vec<(u64, PathEntry)>> {
        let _tree = self.tree.read();
        let path = self.path_in(dir, b"")?;
        let path = path.strip_suffix(b"/").unwrap_or(&path);
        let mut entries = self.driver.list(path)?;
        entries.retain(|entry| !entry.name.starts_with(HIDDEN));
        let table = self.table.lock();
        let place = |mut entry: PathEntry| {
            if entry.inode == 0 {
                let known = table.child(dir, &entry.name);
                let path = table.path_in(dir, &entry.name)?;
                entry.inode = known.unwrap_or_else(|| Table::number(&path, 0)).0;
            }
            // 55 bits of hash; 8 to tell names apart that share them.
            Ok((super::table::hash(&entry.name) >> 9 << 8, entry))
        };
        let mut placed: Vec<_> = entries.into_iter().map(place).collect::<Result<_>>()?;
        placed.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
        let (mut last, mut count) = (0, 0);
        for (position, _) in &mut placed {
            count = if *position == last { count + 1 } else { 1 };
            last = *position;
            *position += count;
        }
        Ok(placed)
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
        derived::walk(lookup, |node| self.forget(node, 1), from, path)
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        self.0.table.lock().parent(dir)
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        let table = self.0.table.lock();
        match table.get(node)?.hidden {
            true => Err(Errno::ENOENT.into()),
            false => table.path(node),
        }
    }

    fn attributes(&self, node: Node) -> Result<Attributes> {
        self.0.attributes(node)
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        match self.capabilities().checks_permissions {
            true => self
                .0
                .with_path(node, |path| self.0.driver.access(caller, path, access)),
            false => derived::access(caller, &self.attributes(node)?, access, self.capabilities()),
        }
    }

    fn readlink(&self, node: Node) -> Result<Vec<u8>> {
        match self.0.table.lock().get(node)?.kind {
            FileKind::Symlink => {}
            _ => return Err(Errno::EINVAL.into()),
        }
        self.0.with_path(node, |path| self.0.driver.readlink(path))
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        self.0.openable(node, flags)?;
        self.0.with_path(node, |path| {
            let handle = self.0.driver.open(caller, path, flags)?;
            Shared::opened(&self.0, node, handle)
        })
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        self.0.openable(node, flags)?;
        let flags = flags.without(OpenFlags::TRUNCATE);
        self.0.with_path(node, |path| {
            let handle = self.0.driver.restore(caller, path, flags, state)?;
            Shared::opened(&self.0, node, handle)
        })
    }

    fn open_directory(&self, _: &Caller<'_>, dir: Node, _: OpenFlags) -> Result<OpenedDirectory> {
        self.0.table.lock().path_in(dir, b"")?;
        let snapshot = Snapshot::new(Arc::clone(&self.0), dir);
        Ok(OpenedDirectory::Driven(Box::new(snapshot)))
    }

    fn read_directory(&self, dir: Node, from: u64, sink: &mut DirectorySink<'_>) -> Result<()> {
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

    fn statfs(&self) -> Result<StatFs> {
        self.0.driver.statfs()
    }

    fn get_xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.0
            .with_path(node, |path| self.0.driver.get_xattr(path, name))
    }

    fn list_xattr(&self, node: Node) -> Result<Vec<u8>> {
        self.0
            .with_path(node, |path| self.0.driver.list_xattr(path))
    }

    fn set_xattr(
        &self,
        _: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.0.may_change()?;
        self.0.with_path(node, |path| {
            self.0.driver.set_xattr(path, name, value, flags)
        })
    }

    fn remove_xattr(&self, _: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        self.0.may_change()?;
        self.0
            .with_path(node, |path| self.0.driver.remove_xattr(path, name))
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
        Shared::create(&self.0, caller, dir, name, flags, mode)
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
        self.0.link(caller, node, dir, name)
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.0.unlink(caller, dir, name)
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.0.rmdir(caller, dir, name)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.0.rename(caller, from, to, flags)
    }

    fn forget(&self, node: Node, count: u64) {
        self.0.table.lock().forget(node, count);
    }

    fn hold(&self, node: Node) -> Result<()> {
        // As an open file: the node stays in the table when its names and references go.
        self.0.table.lock().get_mut(node)?.opens += 1;
        Ok(())
    }

    fn release(&self, node: Node) {
        self.0.closed(node);
    }

    fn finish(&self) {
        self.0.driver.finish();
    }
}
