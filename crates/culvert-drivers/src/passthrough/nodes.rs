//! The nodes that the transport knows, each with a descriptor on what it is.
//!
//! A node is the inode's own number; on another device than the root's, where the same numbers come again, one mixed from both. While a node is in the table
//! its descriptor keeps the inode from being freed, so device and inode name it and nothing else.

use super::kernel;
use crate::descriptor::{Adopt, Descriptor, Held};
use alloc::{
    collections::{BTreeMap, btree_map::Entry as Slot},
    sync::Arc,
};
use culvert::{Errno, Error, FileKind, Node, Result, sync::Mutex};
use culvert_sys::raw::general::statx;

/// What a node is.
#[derive(Debug)]
pub(super) struct Object {
    held: Held,
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

/// A node that the transport, an open file or a node below keeps.
struct Known {
    object: Arc<Object>,
    /// References of the transport.
    references: u64,
    /// Open files, and nodes below.
    pins: u64,
    /// The directory that is pinned for this node.
    parent: Option<Node>,
}

/// All nodes of a mount in this process.
pub(super) struct Nodes {
    root: (Node, Arc<Object>),
    adopt: Option<Adopt>,
    known: Mutex<BTreeMap<Node, Known>>,
}

impl Nodes {
    /// The nodes below the directory `root`.
    pub fn new(root: Descriptor, adopt: Option<Adopt>) -> Result<Self> {
        let status = kernel::status(root.raw(), None)?;
        let object = Object {
            held: Held::from(root).adopted(adopt),
            identity: identity(&status),
            kind: FileKind::Directory,
        };
        Ok(Self {
            root: (Node(object.identity.1), Arc::new(object)),
            adopt,
            known: Mutex::new(BTreeMap::new()),
        })
    }

    /// The root.
    pub fn root(&self) -> (Node, &Object) {
        (self.root.0, &self.root.1)
    }

    /// The number of what `status` describes.
    pub fn number(&self, status: &statx) -> Node {
        let (device, inode) = identity(status);
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
        let found = known.get(&node).ok_or(Errno::ESTALE)?;
        Ok(found.object.clone())
    }

    /// One more reference on the node that `status` describes, should it be known.
    pub fn refer(&self, status: &statx) -> Option<Node> {
        let node = self.number(status);
        if node == self.root.0 {
            return (self.root.1.identity == identity(status)).then_some(node);
        }
        let mut known = self.known.lock();
        let found = known.get_mut(&node)?;
        if found.object.identity != identity(status) {
            return None;
        }
        found.references += 1;
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
        let node = self.number(status);
        let object = Object {
            held: descriptor.into(),
            identity: identity(status),
            kind: kind(status)?,
        };
        if node == self.root.0 {
            return self.same(&self.root.1, &object).map(|()| node);
        }
        // Outside the lock: the embedder has locks of its own.
        let object = Arc::new(Object {
            held: object.held.adopted(self.adopt),
            ..object
        });
        let mut known = self.known.lock();
        match known.entry(node) {
            Slot::Occupied(mut found) => {
                self.same(&found.get().object, &object)?;
                count(found.get_mut());
            }
            Slot::Vacant(place) => {
                let mut new = Known {
                    object: object.clone(),
                    references: 0,
                    pins: 0,
                    parent: None,
                };
                count(&mut new);
                place.insert(new);
                self.hang(&mut known, node, parent);
            }
        }
        drop(known);
        Ok(node)
    }

    /// Two files of one number would be taken for each other.
    fn same(&self, one: &Object, other: &Object) -> Result<()> {
        if one.identity == other.identity {
            return Ok(());
        }
        Err(Error::because(
            Errno::EIO,
            alloc::format!(
                "inode {} of device {:#x} and inode {} of device {:#x} have the same node number",
                one.identity.1,
                one.identity.0,
                other.identity.1,
                other.identity.0
            ),
        ))
    }

    /// Makes `parent` the directory that `node` keeps.
    fn hang(&self, known: &mut BTreeMap<Node, Known>, node: Node, parent: Option<Node>) {
        let parent = parent.filter(|&parent| parent != node);
        let parent = parent.and_then(|parent| {
            known.get_mut(&parent)?.pins += 1;
            Some(parent)
        });
        let old = known
            .get_mut(&node)
            .and_then(|child| core::mem::replace(&mut child.parent, parent));
        if let Some(old) = old {
            self.release(known, old, |old| old.pins -= 1);
        }
    }

    /// The node of `descriptor`, the directory above `child`, kept by `child` from now on.
    pub fn above(&self, child: Node, descriptor: Descriptor, status: &statx) -> Result<Node> {
        let parent = self.add(descriptor, status, None, |known| known.pins += 1)?;
        let mut known = self.known.lock();
        self.hang(&mut known, child, Some(parent));
        self.release(&mut known, parent, |parent| parent.pins -= 1);
        Ok(parent)
    }

    /// Takes `count` references on `node` back.
    pub fn forget(&self, node: Node, count: u64) {
        let mut known = self.known.lock();
        self.release(&mut known, node, |known| {
            known.references = known.references.saturating_sub(count);
        });
    }

    /// Keeps `node` while a file is open on it.
    pub fn pin(&self, node: Node) {
        if let Some(known) = self.known.lock().get_mut(&node) {
            known.pins += 1;
        }
    }

    /// Ends what [`Nodes::pin`] began.
    pub fn unpin(&self, node: Node) {
        let mut known = self.known.lock();
        self.release(&mut known, node, |known| known.pins -= 1);
    }

    /// Drops a count on `node`; what nobody keeps any more is closed, and so on upwards.
    fn release(
        &self,
        known: &mut BTreeMap<Node, Known>,
        node: Node,
        count: impl FnOnce(&mut Known),
    ) {
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

    /// How many nodes are kept, the root not among them.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.known.lock().len()
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
