//! What an adapter keeps of a path-based driver: nodes found, by the paths that they have now.

use super::{
    PathEntry, PathFileSystem,
    lock::TreeLock,
    table::{HIDDEN, PathTable, ROOT},
};
use crate::{Attributes, Entry, Errno, Error, FileKind, Node, Result, sync::Mutex};
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

pub(super) struct AdapterState<T: PathFileSystem> {
    pub(super) driver: T,
    /// Held for reading while a path is in use, for writing while names change: a path never goes
    /// stale between being made and being used.
    pub(super) tree: TreeLock,
    /// Held for moments only, never during a call of the driver.
    pub(super) table: alloc::sync::Arc<Mutex<PathTable>>,
    /// Held from finding the end of a file to writing there.
    pub(super) appending: Mutex<()>,
    /// Held from asking what a file without a name is to noting it down.
    pub(super) remembering: Mutex<()>,
    /// Whether a file may be open that has no name: the table has what it was at the removal.
    pub(super) orphaned: AtomicBool,
    /// What the driver keeps of directories that are held.
    pub(super) held: Mutex<BTreeMap<Node, Arc<T::Handle>>>,
}

impl<T: PathFileSystem> AdapterState<T> {
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
        let hidden = {
            let table = self.table.lock();
            if let Some(last) = table.removed(node)? {
                drop(table);
                let now = self.by_hold(node).and_then(Result::ok).unwrap_or(last);
                let links = last.links;
                return Ok(self.complete(node, Attributes { links, ..now }));
            }
            table.get(node)?.hidden
        };
        let found = self.wherever(node, || {
            let path = self.table.lock().path(node);
            self.by_path(path, |path| {
                let found = self.driver.attributes(path)?;
                self.table.lock().see(node, &found)?;
                Ok(found)
            })
        });
        let mut attributes = match found {
            // A directory that another process has removed: it has not put it elsewhere.
            Err(error) if error.errno() == Errno::ESTALE && self.driver.knows_moves() => {
                let now = self.by_hold(node).and_then(Result::ok);
                let seen = || self.table.lock().seen(node);
                let found = now.or_else(seen).ok_or(error)?;
                Attributes { links: 0, ..found }
            }
            Err(error) if is_out_of_reach(&error) => self.by_hold(node).unwrap_or(Err(error))?,
            found => found?,
        };
        if hidden {
            attributes.links = 0;
        }
        Ok(self.complete(node, attributes))
    }

    /// The driver keeps hold of `node`, if it is a directory.
    pub(super) fn take_hold(&self, node: Node) {
        let _tree = self.tree.read();
        let path = {
            let table = self.table.lock();
            match table.get(node) {
                Ok(known) if known.kind == FileKind::Directory => table.path(node),
                _ => return,
            }
        };
        if node == ROOT || self.held(node).is_some() {
            return;
        }
        let Some(handle) = path.ok().and_then(|path| self.driver.hold(&path)) else {
            return;
        };
        let own = self.driver.handle_attributes(&handle).and_then(Result::ok);
        if own.is_some_and(|own| self.table.lock().compare(node, &own).is_ok()) {
            self.held.lock().insert(node, Arc::new(handle));
        }
    }

    /// What the driver keeps of `node`, if that is held.
    pub(super) fn held(&self, node: Node) -> Option<Arc<T::Handle>> {
        self.held.lock().get(&node).cloned()
    }

    /// The attributes of `node` by what the driver keeps of it.
    fn by_hold(&self, node: Node) -> Option<Result<Attributes>> {
        let held = self.held(node)?;
        self.driver.handle_attributes(&held)
    }

    /// fsync(2) of a directory: of one that was removed nothing is left to do.
    pub(super) fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        match self.with_path(dir, |path| self.driver.sync_directory(path, data_only)) {
            Err(_) if self.is_removed_directory(dir) => Ok(()),
            done => done,
        }
    }

    /// An open file of `node` has changed: what is known of a node without a name is what `ask`
    /// says now.
    pub(super) fn changed(&self, node: Node, ask: impl FnOnce() -> Option<Result<Attributes>>) {
        if !self.orphaned.load(SeqCst) {
            return;
        }
        // A removal that is on its way is over then; a later one will ask the driver.
        let _tree = self.tree.read();
        let removed = matches!(self.table.lock().removed(node), Ok(Some(_)));
        if !removed {
            return;
        }
        let _remembering = self.remembering.lock();
        if let Some(Ok(own)) = ask() {
            self.table.lock().remember(node, own);
        }
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

    /// What `ask` says of `node`, asked again when it is not where it was and the driver knows
    /// where another process has put it. The tree must be held.
    fn wherever<R>(&self, node: Node, ask: impl Fn() -> Result<R>) -> Result<R> {
        match ask() {
            Err(error)
                if matches!(error.errno(), Errno::ESTALE | Errno::ENOENT)
                    && self.relocate(node) =>
            {
                ask()
            }
            answer => answer,
        }
    }

    /// Whether `node` is a directory that was removed, by this process or by one that need not be
    /// asked where it has put it otherwise.
    pub(super) fn is_removed_directory(&self, node: Node) -> bool {
        let is_directory = match self.table.lock().get(node) {
            Ok(known) if known.last.is_some() => return known.kind == FileKind::Directory,
            known => known.is_ok_and(|known| known.kind == FileKind::Directory),
        };
        let _tree = self.tree.read();
        let is_gone = |error: crate::Error| error.errno() == Errno::ESTALE;
        is_directory && self.driver.knows_moves() && self.placed(node).is_err_and(is_gone)
    }

    /// Whether `node` is a directory that is held, and the caller may not search one above it.
    pub(super) fn is_held_below_a_refusal(&self, node: Node) -> bool {
        let _tree = self.tree.read();
        let is_refused = |error: crate::Error| error.errno() == Errno::EACCES;
        self.held(node).is_some() && self.placed(node).is_err_and(is_refused)
    }

    /// Looks for `node` where the driver says that others have renamed it to, or a directory above
    /// it; whether something was found. The tree must be held.
    fn relocate(&self, node: Node) -> bool {
        if !self.driver.knows_moves() {
            return false;
        }
        let above = self.table.lock().itself_and_above(node);
        above.into_iter().any(|(one, inode)| {
            let path = self.driver.moved(inode);
            path.is_some_and(|path| self.walk(&path).is_ok_and(|found| found == one))
        })
    }

    /// The node that `path` leads to, with no reference.
    fn walk(&self, path: &[u8]) -> Result<Node> {
        let mut dir = ROOT;
        for name in path.split(|&byte| byte == b'/') {
            let below = self.path_below(dir, name);
            let entry = below.and_then(|below| self.found(dir, name, &below));
            self.table.lock().forget(dir, 1);
            dir = entry?.attributes.node;
        }
        self.table.lock().forget(dir, 1);
        Ok(dir)
    }

    /// The path of `node`, at which it is now: `ENOENT` when it has none any more.
    pub(super) fn current_path(&self, node: Node) -> Result<Vec<u8>> {
        let _tree = self.tree.read();
        if self.table.lock().get(node).is_err() {
            return self.driver.moved(node.0).ok_or(Errno::ESTALE.into());
        }
        let path = self.placed(node);
        path.map_err(|error| match error.errno() {
            Errno::ESTALE => Errno::ENOENT.into(),
            _ => error,
        })
    }

    /// The path of `node`, which leads to it. The tree must be held.
    fn placed(&self, node: Node) -> Result<Vec<u8>> {
        self.wherever(node, || {
            let path = self.table.lock().path(node);
            self.by_path(path, |path| {
                self.verify(node, path)?;
                Ok(path.to_vec())
            })
        })
    }

    /// Runs `ask` with the path of `node`, which stays its path meanwhile as far as this process
    /// goes; `ESTALE` when another process has put something else there.
    pub(super) fn with_path<R>(
        &self,
        node: Node,
        ask: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        let _tree = self.tree.read();
        self.by_path(self.placed(node), ask)
    }

    /// Opens the file `node` by `open`, which takes nothing but files: what was opened is compared,
    /// so it need not be looked for before.
    pub(super) fn open_by_path<R>(
        &self,
        node: Node,
        open: impl Fn(&[u8]) -> Result<R>,
    ) -> Result<R> {
        let _tree = self.tree.read();
        self.wherever(node, || {
            let path = self.table.lock().path(node);
            self.by_path(path, |path| {
                let opened = open(path);
                if opened.is_err() {
                    // Of another file it may be.
                    self.verify(node, path)?;
                }
                opened
            })
        })
    }

    /// Asks the driver whether `path` still leads to `node`: other processes rename, too. A driver
    /// that reports no inodes cannot tell. The tree must be held.
    pub(super) fn verify(&self, node: Node, path: &[u8]) -> Result<()> {
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
        self.bound(dir, name, attributes)
    }

    /// The entry of what is `name` in `dir` and has these attributes, with one reference. The tree
    /// must be held.
    pub(super) fn bound(&self, dir: Node, name: &[u8], attributes: Attributes) -> Result<Entry> {
        let mut table = self.table.lock();
        let node = table.bind(dir, name, &attributes)?;
        table.reference(node);
        let attributes = self.complete(node, attributes);
        Ok(Entry { attributes })
    }

    /// The path of `name` in `dir`; our own names are not there for anyone. `ESTALE` when the path
    /// of `dir` leads to something else by now.
    pub(super) fn path_in(&self, dir: Node, name: &[u8]) -> Result<Vec<u8>> {
        let path = self.wherever(dir, || {
            let path = self.path_below(dir, name)?;
            let above = self.table.lock().path(dir);
            self.by_path(above, |above| self.verify(dir, above))?;
            Ok(path)
        });
        let is_known = || self.table.lock().get(dir).is_ok();
        path.map_err(|error| match error.errno() {
            // Others have not renamed it: so it was removed.
            Errno::ESTALE if self.driver.knows_moves() && is_known() => Errno::ENOENT.into(),
            _ => error,
        })
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
    pub(super) fn step(&self, dir: Node, name: &[u8]) -> Result<Entry> {
        let _tree = self.tree.read();
        let path = self.path_below(dir, name)?;
        self.found(dir, name, &path)
    }

    /// The names in `dir`, each with its inode, sorted by a position that depends on the name
    /// alone.
    pub(super) fn list(&self, dir: Node) -> Result<Vec<(u64, PathEntry)>> {
        self.list_by(dir, |path| self.driver.list(path))
    }

    /// The same of what `names` says that there is.
    pub(super) fn list_by(
        &self,
        dir: Node,
        names: impl FnOnce(&[u8]) -> Result<Vec<PathEntry>>,
    ) -> Result<Vec<(u64, PathEntry)>> {
        let _tree = self.tree.read();
        let path = self.path_in(dir, b"")?;
        let path = path.strip_suffix(b"/").unwrap_or(&path);
        let mut entries = names(path)?;
        entries.retain(|entry| !entry.name.starts_with(HIDDEN));
        let table = self.table.lock();
        let place = |mut entry: PathEntry| {
            if entry.inode == 0 {
                let known = table.child(dir, &entry.name);
                let path = table.path_in(dir, &entry.name)?;
                entry.inode = known.unwrap_or_else(|| PathTable::number(&path, 0)).0;
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

/// Whether a path does not lead to its node for this caller, or with the descriptors that are left;
/// what is held can be asked all the same.
pub(super) fn is_out_of_reach(error: &Error) -> bool {
    let errno = error.errno();
    matches!(errno, Errno::EACCES | Errno::EMFILE | Errno::ENFILE)
}
