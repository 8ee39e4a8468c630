//! One directory `obb` for all users (`graft_path` of the original).
//!
//! In a source with several users what is called `USER/Android/obb` is the directory `obb` of the
//! source, for each user one that is his own by its owners and its path, with the same files. So
//! what lies there has a node for each user, whose number is mixed from that below and that of the
//! user's own directory `obb`: all processes have the same without asking each other. What such a
//! number was made of is known as long as somebody keeps the node. By `/obb` and by a descriptor
//! the files are what they are below.
//!
//! What the layer above refuses (links, extended attributes, files without a name) does not come
//! here.

use super::core::DIRECTORY;
use crate::{Keeper, passthrough::mix};
use alloc::{boxed::Box, collections::BTreeMap, sync::Arc, vec::Vec};
use culvert::{
    Access, Attributes, Caller, Change, DirectorySink, Entry, Errno, Error, FileKind, FileLayer,
    FileSystem, Layer, LayeredFile, Maps, Node, Observed, Observer, OpenFlags, Opened,
    OpenedDirectory, RenameFlags, Result, SetAttributes, StatFs, Timespec, Touches, sync::Mutex,
};

/// What all users share.
const SHARED: &[u8] = b"obb";
const ANDROID: &[u8] = b"Android";

/// Which node, in which table of descriptors.
type Key = (usize, Node);

/// What a node of a user's is made of.
#[derive(Clone, Copy)]
struct Part {
    below: Node,
    /// The user's own directory `obb`.
    own: Node,
}

/// References on users' own directories, to be given back when no lock is held.
type Returned = Vec<(Node, u64)>;

struct Known {
    part: Part,
    /// The front end's.
    references: u64,
    /// Holds, open files, and what lies below.
    pins: u64,
    /// The directory that is kept by this.
    above: Option<Node>,
    /// References on `own`.
    owned: u64,
}

/// What is known of users' nodes in this process.
struct Parts {
    keeper: Keeper,
    table: Mutex<BTreeMap<Key, Known>>,
}

impl Parts {
    /// Where `node` stands for those with descriptor table `of`: their own, or the process's.
    fn key(table: &BTreeMap<Key, Known>, of: usize, node: Node) -> Key {
        match of != 0 && !table.contains_key(&(of, node)) {
            true => (0, node),
            false => (of, node),
        }
    }

    fn get(&self, node: Node) -> Option<Part> {
        let table = self.table.lock();
        let key = Self::key(&table, self.keeper.table(), node);
        table.get(&key).map(|known| known.part)
    }

    /// One reference on the node that `part` makes, which keeps the directory `above`.
    fn keep(&self, part: Part, above: Option<Node>, owned: u64) -> (Node, Returned) {
        let node = Node(mix(mix(part.own.0) ^ part.below.0).max(1));
        let of = self.keeper.table();
        let mut table = self.table.lock();
        let fresh = Known {
            part,
            references: 0,
            pins: 0,
            above: None,
            owned: 0,
        };
        let known = table.entry((of, node)).or_insert(fresh);
        known.references += 1;
        known.owned += owned;
        let (before, above) = (known.above, above.filter(|above| *above != node));
        if above.is_some() && before != above {
            known.above = None;
            // That of a child of vfork(2) may be its parent's, which keeps it.
            if let Some(dir) = above
                && let Some(dir) = table.get_mut(&(of, dir))
            {
                dir.pins += 1;
                if let Some(known) = table.get_mut(&(of, node)) {
                    known.above = above;
                }
            }
        }
        drop(table);
        let left = before.filter(|_| above.is_some() && before != above);
        let returned = left.map_or_else(Vec::new, |before| self.unpin(before));
        (node, returned)
    }

    /// Keeps `node` for a hold or a file, if it is one of these; what is kept.
    fn pin(&self, node: Node) -> Option<Key> {
        let mut table = self.table.lock();
        let key = Self::key(&table, self.keeper.table(), node);
        table.get_mut(&key).map(|known| {
            known.pins += 1;
            key
        })
    }

    /// The end of a hold.
    fn unpin(&self, node: Node) -> Returned {
        self.less(node, |known| known.pins = known.pins.saturating_sub(1))
    }

    /// The end of a file that kept `key`, whoever closes it: what a child of vfork(2) has opened
    /// its parent drops.
    fn unpin_open(&self, key: Key) -> Returned {
        let returned = self.less_at(key, |known| known.pins = known.pins.saturating_sub(1));
        match key.0 == self.keeper.table() {
            true => returned,
            // The driver below counts by who calls, and would take it from what is the caller's.
            false => Returned::new(),
        }
    }

    /// The front end drops `count` references.
    fn forget(&self, node: Node, count: u64) -> Returned {
        self.less(node, |known| {
            known.references = known.references.saturating_sub(count);
        })
    }

    /// In a child of vfork only what is its own: the parent's counts stay the parent's.
    fn less(&self, node: Node, less: impl FnOnce(&mut Known)) -> Returned {
        self.less_at((self.keeper.table(), node), less)
    }

    fn less_at(&self, key: Key, less: impl FnOnce(&mut Known)) -> Returned {
        let mut table = self.table.lock();
        let (mut key, mut returned) = (key, Vec::new());
        if let Some(known) = table.get_mut(&key) {
            less(known);
        }
        // What nobody keeps, and so on upwards.
        while let Some(known) = table.get(&key) {
            if known.references > 0 || known.pins > 0 {
                break;
            }
            if known.owned > 0 {
                returned.push((known.part.own, known.owned));
            }
            let above = known.above;
            table.remove(&key);
            let Some(above) = above else { break };
            key.1 = above;
            if let Some(dir) = table.get_mut(&key) {
                dir.pins = dir.pins.saturating_sub(1);
            }
        }
        returned
    }

    /// All nodes that are `below` there.
    fn of_below(&self, below: Node) -> Vec<Node> {
        let table = self.table.lock();
        let all = table.iter().filter(|(_, known)| known.part.below == below);
        all.map(|((_, node), _)| *node).collect()
    }
}

/// What the layer and its files know.
struct Core {
    inner: Box<dyn FileSystem>,
    parts: Parts,
}

impl Core {
    fn give_back(&self, returned: Returned) {
        for (own, count) in returned {
            self.inner.forget(own, count);
        }
    }
}

/// The layer.
pub struct GraftFs(Arc<Core>);

impl GraftFs {
    /// Over `inner`, which finds names in whatever case. The directory that is shared is made where
    /// it is missing and can be, as `maker`.
    pub fn new(inner: Box<dyn FileSystem>, keeper: Keeper, maker: &Caller<'_>) -> Self {
        let parts = Parts {
            keeper,
            table: Mutex::new(BTreeMap::new()),
        };
        let layer = Self(Arc::new(Core { inner, parts }));
        // Who finds none is told so when he looks for it.
        if let Ok(shared) = layer.shared(maker) {
            layer.0.inner.forget(shared.attributes.node, 1);
        }
        layer
    }

    /// The directory that all share, with one reference.
    fn shared(&self, caller: &Caller<'_>) -> Result<Entry> {
        let (inner, mut made) = (&self.0.inner, false);
        loop {
            let found = match inner.lookup(caller, inner.root(), SHARED) {
                Err(error) if error.errno() == Errno::ENOENT && !made => {
                    made = true;
                    inner.mkdir(caller, inner.root(), SHARED, DIRECTORY)
                }
                found => found,
            };
            match found {
                Err(error) if error.errno() == Errno::EEXIST => {}
                Ok(found) if found.attributes.kind != FileKind::Directory => {
                    inner.forget(found.attributes.node, 1);
                    let why = "the directory obb of the source, which all users share, is none";
                    return Err(Error::because(Errno::ENOTDIR, why));
                }
                found => return found.map_err(|error| error.within("the shared directory obb")),
            }
        }
    }

    /// What `node` is below, and the user's directory `obb` that it is seen by.
    fn part(&self, node: Node) -> (Node, Option<Node>) {
        match self.0.parts.get(node) {
            Some(part) => (part.below, Some(part.own)),
            None => (node, None),
        }
    }

    fn below(&self, node: Node) -> Node {
        self.part(node).0
    }

    /// Whether `name` in the directory `dir` below is a user's `obb`.
    fn is_own(&self, dir: Node, name: &[u8]) -> bool {
        if !name.eq_ignore_ascii_case(SHARED) {
            return false;
        }
        let path = self.0.inner.path_of(dir).unwrap_or_default();
        let mut names = path.split(|&byte| byte == b'/');
        let (user, android) = (names.next(), names.next());
        user.is_some_and(|user| !user.is_empty())
            && android.is_some_and(|name| name.eq_ignore_ascii_case(ANDROID))
            && names.next().is_none()
    }

    /// What was found as `name` in `dir`, which is `below` there, as it is seen by `own`.
    fn entered(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        (below, own): (Node, Option<Node>),
        found: Entry,
    ) -> Result<Entry> {
        let core = &self.0;
        let attributes = found.attributes;
        let (shown, part, above, owned) = match own {
            Some(own) => {
                let part = Part {
                    below: attributes.node,
                    own,
                };
                (attributes, part, Some(dir), 0)
            }
            None if attributes.kind == FileKind::Directory && self.is_own(below, name) => {
                let own = attributes.node;
                let shared = self.shared(caller);
                let shared = shared.inspect_err(|_| core.inner.forget(own, 1))?;
                let part = Part {
                    below: shared.attributes.node,
                    own,
                };
                (shared.attributes, part, None, 1)
            }
            None => return Ok(found),
        };
        let node = self.keep(part, above, owned);
        let attributes = Attributes { node, ..shown };
        Ok(Entry { attributes })
    }

    fn keep(&self, part: Part, above: Option<Node>, owned: u64) -> Node {
        let (node, returned) = self.0.parts.keep(part, above, owned);
        self.0.give_back(returned);
        node
    }

    /// A file that was opened on `node`.
    fn wrap(&self, node: Node, own: Option<Node>, opened: Opened) -> Opened {
        match opened {
            Opened::Driven(inner) if own.is_some() => {
                let file = GraftFile {
                    inner,
                    core: Arc::clone(&self.0),
                    node,
                    pinned: self.0.parts.pin(node),
                };
                Opened::Driven(Box::new(LayeredFile(file)))
            }
            opened => opened,
        }
    }
}

impl Layer for GraftFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.0.inner
    }

    fn touches(&self) -> Touches {
        Touches::NO_DATA
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let part = self.part(dir);
        let found = self.inner().lookup(caller, part.0, name)?;
        self.entered(caller, (dir, name), part, found)
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        let inner = self.inner();
        let Some(part) = self.0.parts.get(dir) else {
            return inner.parent(dir);
        };
        let above = inner.parent(part.below)?;
        if above == inner.root() {
            return inner.parent(part.own);
        }
        let above = Part {
            below: above,
            ..part
        };
        // Kept by what lies in it: this one, from here on.
        let node = self.keep(above, None, 0);
        let again = self.keep(part, Some(node), 0);
        for kept in [again, node] {
            self.0.give_back(self.0.parts.forget(kept, 1));
        }
        Ok(node)
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        let Some(part) = self.0.parts.get(node) else {
            return self.inner().path_of(node);
        };
        let path = self.inner().path_of(part.below)?;
        let end = path.iter().position(|&byte| byte == b'/');
        let (first, rest) = path.split_at(end.unwrap_or(path.len()));
        match first.eq_ignore_ascii_case(SHARED) {
            true => Ok([&self.inner().path_of(part.own)?, rest].concat()),
            // It was moved out.
            false => Ok(path),
        }
    }

    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        let found = self.inner().attributes(caller, self.below(node))?;
        Ok(Attributes { node, ..found })
    }

    fn birth_time(&self, caller: &Caller<'_>, node: Node) -> Result<Option<Timespec>> {
        self.inner().birth_time(caller, self.below(node))
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        self.inner().access(caller, self.below(node), access)
    }

    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.inner().readlink(caller, self.below(node))
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let (below, own) = self.part(node);
        let opened = self.inner().open(caller, below, flags)?;
        Ok(self.wrap(node, own, opened))
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        let (below, own) = self.part(node);
        let opened = self.inner().restore(caller, below, flags, state)?;
        Ok(self.wrap(node, own, opened))
    }

    fn is_open_for_writing(&self, node: Node) -> Result<bool> {
        self.inner().is_open_for_writing(self.below(node))
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        self.inner().open_directory(caller, self.below(dir), flags)
    }

    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let (below, own) = self.part(dir);
        let inner = self.inner();
        inner.read_directory(caller, below, from, &mut |mut entry| {
            if own.is_none()
                && entry.kind == FileKind::Directory
                && self.is_own(below, entry.name)
                && let Ok(shared) = self.shared(caller)
            {
                entry.inode = shared.attributes.inode;
                inner.forget(shared.attributes.node, 1);
            }
            sink(entry)
        })
    }

    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        self.inner().sync_directory(self.below(dir), data_only)
    }

    fn statfs_of(&self, node: Node) -> Result<StatFs> {
        self.inner().statfs_of(self.below(node))
    }

    fn observe(&self, observer: Arc<dyn Observer>) -> Observed {
        let core = Arc::clone(&self.0);
        self.inner().observe(Arc::new(Told { core, observer }))
    }

    fn extended(&self, maps: Arc<dyn Maps>) -> Result<()> {
        self.inner().extended(maps)
    }

    fn is_unobserved(&self, node: Node) -> bool {
        self.inner().is_unobserved(self.below(node))
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let below = self.below(node);
        let changed = self.inner().set_attributes(caller, below, changes)?;
        Ok(Attributes { node, ..changed })
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let part = self.part(dir);
        let made = self.inner().create(caller, part.0, name, flags, mode)?;
        let (entry, opened) = made;
        let entry = self.entered(caller, (dir, name), part, entry)?;
        let opened = self.wrap(entry.attributes.node, part.1, opened);
        Ok((entry, opened))
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        let part = self.part(dir);
        let made = self.inner().mkdir(caller, part.0, name, mode)?;
        self.entered(caller, (dir, name), part, made)
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        let part = self.part(dir);
        let made = self.inner().mknod(caller, part.0, name, mode, rdev)?;
        self.entered(caller, (dir, name), part, made)
    }

    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.inner().unlink(caller, self.below(dir), name)
    }

    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.inner().rmdir(caller, self.below(dir), name)
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let from = (self.below(from.0), from.1);
        let to = (self.below(to.0), to.1);
        self.inner().rename(caller, from, to, flags)
    }

    fn forget(&self, node: Node, count: u64) {
        let below = self.below(node);
        self.0.give_back(self.0.parts.forget(node, count));
        self.inner().forget(below, count);
    }

    fn hold(&self, node: Node) -> Result<()> {
        self.inner().hold(self.below(node))?;
        self.0.parts.pin(node);
        Ok(())
    }

    fn release(&self, node: Node) {
        let (below, own) = self.part(node);
        if own.is_some() {
            self.0.give_back(self.0.parts.unpin(node));
        }
        self.inner().release(below);
    }

    fn kernel_node(&self, node: Node) -> Option<i32> {
        // A directory of a user's has other names below it than that of the kernel's.
        let (below, own) = self.part(node);
        let found = self.inner().attributes(&Caller::SYSTEM, below).ok()?;
        match own.is_some() || found.kind == FileKind::Regular {
            true => self.inner().kernel_node(below),
            false => None,
        }
    }

    fn handed_down(&self, node: Node) -> Option<i32> {
        self.inner().handed_down(self.below(node))
    }
}

/// An open file that a user has by his own directory.
struct GraftFile {
    inner: Box<dyn culvert::File>,
    core: Arc<Core>,
    node: Node,
    /// What keeps it.
    pinned: Option<Key>,
}

impl FileLayer for GraftFile {
    type Inner = dyn culvert::File;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn touches_data(&self) -> bool {
        false
    }

    fn seen(&self, _: &Caller<'_>, attributes: Attributes) -> Attributes {
        Attributes {
            node: self.node,
            ..attributes
        }
    }
}

impl Drop for GraftFile {
    fn drop(&mut self) {
        if let Some(pinned) = self.pinned {
            self.core.give_back(self.core.parts.unpin_open(pinned));
        }
    }
}

/// Tells of changes for each user who sees what has changed.
struct Told {
    core: Arc<Core>,
    observer: Arc<dyn Observer>,
}

impl Observer for Told {
    fn tell(&self, change: Change) {
        let nodes = |below: Node| self.core.parts.of_below(below);
        let others: Vec<Change> = match &change {
            Change::Everything => Vec::new(),
            Change::Name { dir, name } => {
                let each = nodes(*dir).into_iter();
                each.map(|dir| Change::Name {
                    dir,
                    name: name.clone(),
                })
                .collect()
            }
            Change::Doubtful { dir, name } | Change::Removed { dir, name, .. } => {
                let each = nodes(*dir).into_iter();
                each.map(|dir| Change::Doubtful {
                    dir,
                    name: name.clone(),
                })
                .collect()
            }
            Change::Attributes(node) => nodes(*node).into_iter().map(Change::Attributes).collect(),
            Change::Content(node) => nodes(*node).into_iter().map(Change::Content).collect(),
            Change::Unneeded(node) => nodes(*node).into_iter().map(Change::Unneeded).collect(),
        };
        for change in others {
            self.observer.tell(change);
        }
        self.observer.tell(change);
    }

    fn report(&self, line: &str) {
        self.observer.report(line);
    }
}
