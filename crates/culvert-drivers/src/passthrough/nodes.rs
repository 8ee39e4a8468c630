//! The nodes that the front end knows, each with a descriptor on what it is.
//!
//! A node is the inode's own number; on another device than the root's, where the same numbers come
//! again, one mixed from both. While a node is in the table its descriptor keeps the inode from
//! being freed, so device and inode name it and nothing else.
//!
//! Where there may be more nodes than descriptors, some have none for the time being (`closed`).
//!
//! A child of vfork(2) shares this memory but not the descriptors: what it opens is entered for its
//! table of descriptors, and what others opened it may use where its copy of the table has it,
//! which is looked at each time.

use super::closed::{Closed, Closing, birth};
use super::kernel::{self, Name, identity, kind};
use super::object::Object;
use super::table::{Key, Known, NodeState, NodeTable};
use crate::descriptor::{Keeper, NodeBook, OwnedFd};
use alloc::{format, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use culvert::{Errno, Error, FileKind, Node, Result, sync::Mutex};
use culvert_sys::fd::AsFd;
use culvert_sys::raw::general::statx;

/// A moment in the life of the table ([`Nodes::now`]).
#[derive(Clone, Copy)]
pub(super) struct Moment(u64);

/// Where a node was found: a directory, and a name in it.
pub(super) type Place<'a> = (Node, &'a Name);

/// All nodes of a mount in this process.
pub(super) struct Nodes {
    root: (Node, Arc<Object>),
    pub(super) keeper: Keeper,
    book: Option<&'static dyn NodeBook>,
    /// Whether nodes are made without a descriptor until one is needed (`named`).
    pub(super) sees: bool,
    /// None: all nodes have descriptors.
    closing: Option<Closing>,
    /// Some are opened again by names: all where there are no handles, else what is on other mounts
    /// below the root.
    by_names: AtomicBool,
    pub(super) table: Mutex<NodeTable>,
}

impl Nodes {
    /// The nodes below the directory `root`, which is `identity`; those in `book` are known already.
    /// `limit`: how many may have a descriptor.
    pub fn new(
        root: OwnedFd,
        identity: (u64, u64),
        keeper: Keeper,
        book: Option<&'static dyn NodeBook>,
        limit: Option<usize>,
    ) -> Self {
        let closing = limit.map(|limit| Closing::new(&root, limit));
        let object = Object {
            held: keeper.keep(root),
            book: None,
            identity,
            kind: FileKind::Directory,
        };
        let nodes = Self {
            root: (Node(object.identity.1), Arc::new(object)),
            keeper,
            book,
            sees: false,
            by_names: AtomicBool::new(
                closing
                    .as_ref()
                    .is_some_and(|closing| !closing.by_handles()),
            ),
            closing,
            table: Mutex::new(NodeTable::new(book)),
        };
        if let Some(book) = book {
            book.each(&mut |fd, node, references| nodes.take_over(fd, Node(node), references));
            book.each_away(&mut |place, node, references, traces| {
                nodes.take_over_closed(Closed::from_traces(place, traces), Node(node), references);
            });
        }
        nodes
    }

    /// Descriptor `fd` of the process before this one, which was `node`. One that nobody refers to,
    /// or that is something else, is closed.
    fn take_over(&self, fd: i32, node: Node, references: u64) {
        let descriptor = OwnedFd::from_raw(fd);
        let usable = kernel::status(&descriptor, None).ok().and_then(|status| {
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
        let key = (self.keeper.table(), node);
        let count = |known: &mut Known| known.references = references;
        self.table.lock().insert(key, Arc::new(object), count);
    }

    /// `node`, for which the server before this one had no descriptor; unless it has one after all:
    /// that server died between the two.
    fn take_over_closed(&self, closed: Closed, node: Node, references: u64) {
        let key = (self.keeper.table(), node);
        let mut table = self.table.lock();
        if references == 0 || !self.closes() || table.known.contains_key(&key) {
            closed.take_back(self.book);
            return;
        }
        table.insert_closed(key, closed, references);
    }

    /// Whether some have no descriptor for the time being.
    pub const fn closes(&self) -> bool {
        self.closing.is_some()
    }

    /// The root.
    pub fn root(&self) -> (Node, &Object) {
        (self.root.0, &self.root.1)
    }

    /// The root's object.
    pub(super) fn root_object(&self) -> Arc<Object> {
        self.root.1.clone()
    }

    /// The number of inode `inode` of `device`.
    pub fn number(&self, identity: (u64, u64)) -> Node {
        number(self.root.1.identity.0, identity)
    }

    /// What `node` is; `ESTALE` when nobody keeps it.
    pub fn get(&self, node: Node) -> Result<Arc<Object>> {
        if node == self.root.0 {
            return Ok(self.root.1.clone());
        }
        let key = {
            let mut table = self.table.lock();
            let key = self.key(&table, node).ok_or(Errno::ESTALE)?;
            let found = table.known.get_mut(&key).ok_or(Errno::ESTALE)?;
            found.used = true;
            match &found.state {
                NodeState::Open { object, .. } => return Ok(object.clone()),
                NodeState::Closed(_) => (key, false),
                NodeState::Seen(_) => (key, true),
            }
        };
        let (key, is_seen) = key;
        if is_seen {
            return self.open_seen(key);
        }
        self.open_again(key)
    }

    /// Opens what was closed, and what is above it as far as that is needed.
    #[cold]
    fn open_again(&self, key: Key) -> Result<Arc<Object>> {
        let closing = self.closing.as_ref().ok_or(Errno::ESTALE)?;
        let mut ways = Vec::new();
        let mut above = self.root.1.clone();
        {
            let table = self.table.lock();
            let mut next = Some(key);
            while let Some(key) = next.take() {
                let known = table.known.get(&key).ok_or(Errno::ESTALE)?;
                match &known.state {
                    NodeState::Open { object, .. } => above = object.clone(),
                    NodeState::Seen(_) => return Err(Errno::ESTALE.into()),
                    NodeState::Closed(closed) => {
                        if closed.handle.is_none() {
                            next = known.parent;
                        }
                        ways.push((key, **closed, known.name.clone()));
                    }
                }
            }
        }
        for (key, closed, name) in ways.into_iter().rev() {
            let name = name.map(|name| Name::new(&name)).transpose()?;
            let descriptor = closing.open(&closed, (above.fd(), name.as_ref()))?;
            let object = self.object(descriptor, closed.identity, closed.kind);
            let mut table = self.table.lock();
            above = table.open(key, object).ok_or(Errno::ESTALE)?;
            table.make_room(closing);
        }
        Ok(above)
    }

    pub(super) fn object(
        &self,
        descriptor: OwnedFd,
        identity: (u64, u64),
        kind: FileKind,
    ) -> Arc<Object> {
        // Outside the lock: the embedder has locks of its own.
        Arc::new(Object {
            held: self.keeper.keep(descriptor),
            book: self.book,
            identity,
            kind,
        })
    }

    /// Where `node` stands for the calling thread.
    pub(super) fn key(&self, table: &NodeTable, node: Node) -> Option<Key> {
        let own = (self.keeper.table(), node);
        if own.0 == 0 || table.known.contains_key(&own) {
            return Some(own);
        }
        let parents = table.known.get(&(0, node))?.object()?;
        let status = kernel::status(parents.fd(), None).ok()?;
        (identity(&status) == parents.identity).then_some((0, node))
    }

    /// The node that `status` describes: its number, unless that belongs to an inode that is gone,
    /// which has no descriptor and is still asked for.
    pub(super) fn node(&self, table: &NodeTable, status: &statx) -> Node {
        let node = self.number(identity(status));
        let known = table.known.get(&(self.keeper.table(), node));
        match known.map(|known| &known.state) {
            Some(NodeState::Closed(closed)) if closed.birth != birth(status) => {
                Node(mix(mix(birth(status)) ^ node.0).max(1))
            }
            Some(NodeState::Seen(seen)) if seen.is_another(status) => {
                Node(mix(mix(birth(status)) ^ node.0).max(1))
            }
            _ => node,
        }
    }

    /// The directory and the name of `place`, where what `status` describes is opened again by
    /// them.
    fn name_needed<'a>(&self, status: &statx, place: Option<Place<'a>>) -> Option<Place<'a>> {
        let closing = self.closing.as_ref()?;
        let place = place.filter(|_| !closing.has_handle(status))?;
        self.by_names.store(true, Relaxed);
        Some(place)
    }

    /// Writes down that node `key` was seen in `place`.
    fn name(&self, table: &mut NodeTable, key: Key, (dir, name): Place<'_>) {
        let dir = (dir != self.root.0).then_some((key.0, dir));
        table.name(key, dir, name.bytes());
    }

    /// The present, for [`Nodes::refer`].
    pub fn now(&self) -> Moment {
        Moment(self.table.lock().entered)
    }

    /// One more reference on the node that `status` describes, should it be known. It was seen in
    /// `place`, if in any.
    ///
    /// `status` was asked for after `asked`: one that came into the table since then is not taken
    /// for it. What was asked about may be gone, and another file have the inode's number; what was
    /// in the table already has kept its inode, or is compared with it when it is opened again.
    pub fn refer(&self, status: &statx, asked: Moment, place: Option<Place<'_>>) -> Option<Node> {
        let mut table = self.table.lock();
        let node = self.node(&table, status);
        if node == self.root.0 {
            return (self.root.1.identity == identity(status)).then_some(node);
        }
        // In a child of vfork only what is its own: the parent's counts stay the parent's.
        let key = (self.keeper.table(), node);
        let found = table.known.get_mut(&key)?;
        if found.identity() != identity(status) || found.entered > asked.0 {
            return None;
        }
        // It may be another file by now where files have no time of birth: what is opened for the
        // question tells.
        if matches!(&found.state, NodeState::Closed(closed) if closed.birth == 0) {
            return None;
        }
        // Nothing keeps it what it is but an open file.
        let is_seen = match &found.state {
            NodeState::Seen(seen) if seen.file.is_none() => return None,
            NodeState::Seen(_) => true,
            _ => false,
        };
        found.references += 1;
        found.note(node, self.book);
        if let Some(place) = place.filter(|_| is_seen) {
            // Where it is found when that file is closed.
            self.name(&mut table, key, place);
        }
        if let Some(place) = self.name_needed(status, place) {
            self.name(&mut table, key, place);
        }
        Some(node)
    }

    /// The node of what `descriptor` is, which `status` describes, with one reference. It was found
    /// in `place`, if in any.
    pub fn insert(
        &self,
        descriptor: OwnedFd,
        status: &statx,
        place: Option<Place<'_>>,
    ) -> Result<Node> {
        self.add(descriptor, status, place, |known| known.references += 1)
    }

    fn add(
        &self,
        descriptor: OwnedFd,
        status: &statx,
        place: Option<Place<'_>>,
        count: impl FnOnce(&mut Known),
    ) -> Result<Node> {
        let (identity, kind) = (identity(status), kind(status)?);
        if self.number(identity) == self.root.0 {
            same(self.root.1.identity, identity)?;
            return Ok(self.root.0);
        }
        let object = self.object(descriptor, identity, kind);
        let mut table = self.table.lock();
        let node = self.node(&table, status);
        let key = (object.held.table(), node);
        match table.known.get_mut(&key) {
            Some(found) => {
                same(found.identity(), identity)?;
                count(found);
                found.note(node, self.book);
                table.open(key, object);
            }
            None => {
                table.insert(key, object, count);
                let parent = place.and_then(|(parent, _)| self.key(&table, parent));
                table.hang(key, parent);
            }
        }
        if let Some(place) = self.name_needed(status, place) {
            self.name(&mut table, key, place);
        }
        if let Some(closing) = &self.closing {
            table.make_room(closing);
        }
        Ok(node)
    }

    /// What `descriptor` is, kept for good: the front end knows it from another process, and will
    /// not give back what it never got.
    pub fn keep(&self, descriptor: OwnedFd, status: &statx) -> Result<Arc<Object>> {
        let node = self.add(descriptor, status, None, |known| known.pins += 1)?;
        self.get(node)
    }

    /// The node of `descriptor`, the directory above `child`, kept by `child` from now on.
    pub fn above(&self, child: Node, descriptor: OwnedFd, status: &statx) -> Result<Node> {
        let parent = self.add(descriptor, status, None, |known| known.pins += 1)?;
        let mut table = self.table.lock();
        let key = (self.keeper.table(), parent);
        let child = self.key(&table, child);
        // The parent of a child that another table has stays pinned: it is not ours to change.
        if let Some(child) = child.filter(|child| child.0 == key.0) {
            if let Some(known) = table.known.get_mut(&child)
                && known.parent.is_some_and(|parent| parent != key)
            {
                known.name = None;
            }
            table.hang(child, Some(key));
            table.release(key, |parent| parent.pins -= 1);
        }
        Ok(parent)
    }

    /// Opens what `name` in the directory `dir` leads to, should it be closed, before the name
    /// goes: afterwards it may be found by nothing. Nothing to do where all nodes are open. The
    /// node, which is not closed while the result lives.
    pub fn hold(&self, dir: impl AsFd, name: &Name) -> Option<(Node, Arc<Object>)> {
        self.closing.as_ref()?;
        if !self.by_names.load(Relaxed) && self.table.lock().closed() == 0 {
            return None;
        }
        let status = kernel::status(dir, Some(name)).ok()?;
        let node = self.node(&self.table.lock(), &status);
        Some((node, self.get(node).ok()?))
    }

    /// What [`Nodes::hold`] held has lost the name in `place`.
    pub fn unnamed(&self, held: Option<(Node, Arc<Object>)>, (dir, name): Place<'_>) {
        if let Some((node, _)) = held {
            let key = (self.keeper.table(), node);
            let dir = (dir != self.root.0).then_some((key.0, dir));
            self.table.lock().unname(key, dir, name.bytes());
        }
    }

    /// What is `name` in the directory `dir`, open as `fd`, by now got it by a rename.
    pub fn renamed(&self, dir: Node, fd: impl AsFd, name: &Name) {
        if !self.by_names.load(Relaxed) {
            return;
        }
        if let Ok(status) = kernel::status(fd, Some(name))
            && self.name_needed(&status, Some((dir, name))).is_some()
        {
            let mut table = self.table.lock();
            let key = (self.keeper.table(), self.node(&table, &status));
            self.name(&mut table, key, (dir, name));
        }
    }

    /// How many references the front end has on `node`; none: nobody keeps it.
    pub fn references(&self, node: Node) -> Option<u64> {
        let table = self.table.lock();
        let found = table.known.get(&(self.keeper.table(), node))?;
        Some(found.references)
    }

    /// Takes `count` references on `node` back.
    pub fn forget(&self, node: Node, count: u64) {
        let key = (self.keeper.table(), node);
        self.table.lock().release(key, |known| {
            known.references = known.references.saturating_sub(count);
            known.note(node, self.book);
        });
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

/// The number of inode `inode` of `device` below a root on device `home`.
pub(super) fn number(home: u64, (device, inode): (u64, u64)) -> Node {
    if device == home {
        return Node(inode);
    }
    // One step of splitmix64 for each: numbers of one device never meet each other, and those of
    // two devices hardly.
    Node(mix(mix(device) ^ inode).max(1))
}

/// The finaliser of splitmix64, a bijection (Steele, Lea, Flood: "Fast splittable pseudorandom
/// number generators", 2014).
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    pub fn descriptor(path: &std::path::Path) -> OwnedFd {
        let file = std::fs::File::open(path).expect("it is there");
        OwnedFd::from_raw(file.into_raw_fd())
    }

    pub fn nodes_below(root: OwnedFd) -> Nodes {
        let status = kernel::status(&root, None).expect("it is open");
        Nodes::new(root, identity(&status), Keeper::default(), None, None)
    }

    /// Between the question what a name is and the look for its node a file may get the number of
    /// the one that was asked about.
    #[test]
    fn what_was_asked_about_is_none_that_came_into_the_table_later() {
        let directory = std::env::temp_dir();
        let root = descriptor(&directory);
        let nodes = nodes_below(root);
        let path = directory.join(std::format!("culvert-asked-{}", std::process::id()));
        std::fs::write(&path, b"").expect("a file");
        let file = descriptor(&path);
        std::fs::remove_file(&path).expect("it is there");
        let asked = nodes.now();
        let status = kernel::status(&file, None).expect("it is open");
        let node = nodes.insert(file, &status, None).expect("it is new");
        assert_eq!(nodes.refer(&status, asked, None), None);
        assert_eq!(nodes.refer(&status, nodes.now(), None), Some(node));
    }
}
