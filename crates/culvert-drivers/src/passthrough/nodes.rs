//! The nodes that the transport knows, each with a descriptor on what it is.
//!
//! A node is the inode's own number; on another device than the root's, where the same numbers come again, one mixed from both. While a node is in the table
//! its descriptor keeps the inode from being freed, so device and inode name it and nothing else.
//!
//! A child of vfork(2) shares this memory but not the descriptors: what it opens is entered for its table of descriptors, and what others opened it may
//! use where its copy of the table has it, which is looked at each time.

use super::kernel;
use crate::descriptor::{Descriptor, Held, Keeper, NodeBook};
use alloc::{
    collections::{BTreeMap, btree_map::Entry as Slot},
    format,
    sync::Arc,
};
use culvert::{Errno, Error, FileKind, Node, Result, sync::Mutex};
use culvert_sys::raw::general::statx;

/// What a node is.
pub(super) struct Object {
    held: Held,
    book: Option<&'static dyn NodeBook>,
    /// `st_dev` and `st_ino`.
    pub identity: (u64, u64),
    /// Its type, which no inode changes.
    pub kind: FileKind,
}

impl Object {
    /// The `O_PATH` descriptor, as it is now.
    pub fn fd(&self) -> i32 {
        self.held.raw()
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(book) = self.book {
            book.erase(self.fd());
        }
    }
}

/// A node that the transport, an open file or a node below keeps.
struct Known {
    object: Arc<Object>,
    /// References of the transport.
    references: u64,
    /// Open files, and nodes below.
    pins: u64,
    /// The directory that is pinned for this node.
    parent: Option<Key>,
}

impl Known {
    /// Writes down what the transport has of `node`.
    fn note(&self, node: Node) {
        if let Some(book) = self.object.book {
            book.note(self.object.fd(), node.0, self.references);
        }
    }
}

/// A node as one table of descriptors has it.
type Key = (usize, Node);
type Map = BTreeMap<Key, Known>;

/// All nodes of a mount in this process.
pub(super) struct Nodes {
    root: (Node, Arc<Object>),
    keeper: Keeper,
    book: Option<&'static dyn NodeBook>,
    known: Mutex<Map>,
}

impl Nodes {
    /// The nodes below the directory `root`; those in `book` are known already.
    pub fn new(
        root: Descriptor,
        keeper: Keeper,
        book: Option<&'static dyn NodeBook>,
    ) -> Result<Self> {
        let status = kernel::status(root.raw(), None)?;
        let object = Object {
            held: keeper.keep(root),
            book: None,
            identity: identity(&status),
            kind: FileKind::Directory,
        };
        let nodes = Self {
            root: (Node(object.identity.1), Arc::new(object)),
            keeper,
            book,
            known: Mutex::new(BTreeMap::new()),
        };
        if let Some(book) = book {
            book.each(&mut |fd, node, references| nodes.take_over(fd, Node(node), references));
        }
        Ok(nodes)
    }

    /// Descriptor `fd` of the process before this one, which was `node`. One that nobody refers to, or that is something else, is closed.
    fn take_over(&self, fd: i32, node: Node, references: u64) {
        let descriptor = Descriptor::from_raw(fd);
        let usable = kernel::status(fd, None).ok().and_then(|status| {
            let kind = kind(&status).ok()?;
            (references > 0 && self.number(identity(&status)) == node)
                .then(|| (identity(&status), kind))
        });
        let Some((identity, kind)) = usable else {
            if let Some(book) = self.book {
                book.erase(fd);
            }
            return;
        };
        let object = Object {
            held: self.keeper.keep(descriptor),
            book: self.book,
            identity,
            kind,
        };
        let known = Known {
            object: Arc::new(object),
            references,
            pins: 0,
            parent: None,
        };
        self.known.lock().insert((self.keeper.table(), node), known);
    }

    /// The root.
    pub fn root(&self) -> (Node, &Object) {
        (self.root.0, &self.root.1)
    }

    /// The number of inode `inode` of `device`.
    pub fn number(&self, (device, inode): (u64, u64)) -> Node {
        if device == self.root.1.identity.0 {
            return Node(inode);
        }
        // One step of splitmix64 for each: numbers of one device never meet each other, and those of two devices hardly.
        Node(mix(mix(device) ^ inode).max(1))
    }

    /// What `node` is; `ESTALE` when nobody keeps it.
    pub fn get(&self, node: Node) -> Result<Arc<Object>> {
        if node == self.root.0 {
            return Ok(self.root.1.clone());
        }
        let known = self.known.lock();
        let key = self.key(&known, node).ok_or(Errno::ESTALE)?;
        let found = known.get(&key).ok_or(Errno::ESTALE)?;
        Ok(found.object.clone())
    }

    /// Where `node` stands for the calling thread.
    fn key(&self, known: &Map, node: Node) -> Option<Key> {
        let own = (self.keeper.table(), node);
        if own.0 == 0 || known.contains_key(&own) {
            return Some(own);
        }
        let parents = known.get(&(0, node))?;
        let status = kernel::status(parents.object.fd(), None).ok()?;
        (identity(&status) == parents.object.identity).then_some((0, node))
    }

    /// One more reference on the node that `status` describes, should it be known.
    pub fn refer(&self, status: &statx) -> Option<Node> {
        let node = self.number(identity(status));
        if node == self.root.0 {
            return (self.root.1.identity == identity(status)).then_some(node);
        }
        let mut known = self.known.lock();
        // In a child of vfork only what is its own: the parent's counts stay the parent's.
        let found = known.get_mut(&(self.keeper.table(), node))?;
        if found.object.identity != identity(status) {
            return None;
        }
        found.references += 1;
        found.note(node);
        Some(node)
    }

    /// The node of what `descriptor` is, which `status` describes, with one reference. It was found in directory `parent`, if in any.
    pub fn insert(
        &self,
        descriptor: Descriptor,
        status: &statx,
        parent: Option<Node>,
    ) -> Result<Node> {
        self.add(descriptor, status, parent, |known| known.references += 1)
    }

    fn add(
        &self,
        descriptor: Descriptor,
        status: &statx,
        parent: Option<Node>,
        count: impl FnOnce(&mut Known),
    ) -> Result<Node> {
        let node = self.number(identity(status));
        let (identity, kind) = (identity(status), kind(status)?);
        if node == self.root.0 {
            same(self.root.1.identity, identity)?;
            return Ok(node);
        }
        // Outside the lock: the embedder has locks of its own.
        let object = Arc::new(Object {
            held: self.keeper.keep(descriptor),
            book: self.book,
            identity,
            kind,
        });
        let key = (object.held.table(), node);
        let mut known = self.known.lock();
        match known.entry(key) {
            Slot::Occupied(mut found) => {
                same(found.get().object.identity, identity)?;
                count(found.get_mut());
                found.get().note(node);
            }
            Slot::Vacant(place) => {
                let mut new = Known {
                    object,
                    references: 0,
                    pins: 0,
                    parent: None,
                };
                count(&mut new);
                new.note(node);
                place.insert(new);
                let parent = parent.and_then(|parent| self.key(&known, parent));
                hang(&mut known, key, parent);
            }
        }
        Ok(node)
    }

    /// What `descriptor` is, kept for good: the transport knows it from another process, and will not give back what it never got.
    pub fn keep(&self, descriptor: Descriptor, status: &statx) -> Result<Arc<Object>> {
        let node = self.add(descriptor, status, None, |known| known.pins += 1)?;
        self.get(node)
    }

    /// The node of `descriptor`, the directory above `child`, kept by `child` from now on.
    pub fn above(&self, child: Node, descriptor: Descriptor, status: &statx) -> Result<Node> {
        let parent = self.add(descriptor, status, None, |known| known.pins += 1)?;
        let mut known = self.known.lock();
        let key = (self.keeper.table(), parent);
        let child = self.key(&known, child);
        // The parent of a child that another table has stays pinned: it is not ours to change.
        if let Some(child) = child.filter(|child| child.0 == key.0) {
            hang(&mut known, child, Some(key));
            release(&mut known, key, |parent| parent.pins -= 1);
        }
        Ok(parent)
    }

    /// Takes `count` references on `node` back.
    pub fn forget(&self, node: Node, count: u64) {
        let key = (self.keeper.table(), node);
        release(&mut self.known.lock(), key, |known| {
            known.references = known.references.saturating_sub(count);
            known.note(node);
        });
    }

    /// Keeps `node` until what is returned is dropped: while a file is open on it.
    pub fn pin(self: &Arc<Self>, node: Node) -> Pin {
        let key = (self.keeper.table(), node);
        let mut known = self.known.lock();
        let found = known.get_mut(&key).map(|known| known.pins += 1);
        Pin(found.map(|()| (self.clone(), key)))
    }
}

/// A node that is kept for an open file.
pub(super) struct Pin(Option<(Arc<Nodes>, Key)>);

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some((nodes, key)) = self.0.take() {
            release(&mut nodes.known.lock(), key, |known| known.pins -= 1);
        }
    }
}

/// Two files of one number would be taken for each other.
fn same(one: (u64, u64), other: (u64, u64)) -> Result<()> {
    if one == other {
        return Ok(());
    }
    let cause = format!(
        "inode {} of device {:#x} and inode {} of device {:#x} have the same node number",
        one.1, one.0, other.1, other.0
    );
    Err(Error::because(Errno::EIO, cause))
}

/// Makes `parent` the directory that `node` keeps.
fn hang(known: &mut Map, node: Key, parent: Option<Key>) {
    let parent = parent.filter(|&parent| parent != node);
    let parent = parent.and_then(|parent| {
        known.get_mut(&parent)?.pins += 1;
        Some(parent)
    });
    let child = known.get_mut(&node);
    let old = child.and_then(|child| core::mem::replace(&mut child.parent, parent));
    if let Some(old) = old {
        release(known, old, |old| old.pins -= 1);
    }
}

/// Drops a count on `node`; what nobody keeps any more is closed, and so on upwards.
fn release(known: &mut Map, node: Key, count: impl FnOnce(&mut Known)) {
    let Some(found) = known.get_mut(&node) else {
        return;
    };
    count(found);
    let mut unkept = Some(node);
    while let Some(node) = unkept.take() {
        let Slot::Occupied(found) = known.entry(node) else {
            return;
        };
        if found.get().references > 0 || found.get().pins > 0 {
            return;
        }
        if let Some(parent) = found.remove().parent
            && let Some(above) = known.get_mut(&parent)
        {
            above.pins -= 1;
            unkept = Some(parent);
        }
    }
}

/// `st_dev` and `st_ino` of `status`.
pub(super) fn identity(status: &statx) -> (u64, u64) {
    let device = super::attributes::device(status.stx_dev_major, status.stx_dev_minor);
    (device, status.stx_ino)
}

/// The type of what `status` describes.
pub(super) fn kind(status: &statx) -> Result<FileKind> {
    FileKind::of_mode(u32::from(status.stx_mode))
        .ok_or_else(|| Error::because(Errno::EIO, "a file of no known type"))
}

/// The finaliser of splitmix64, a bijection (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
