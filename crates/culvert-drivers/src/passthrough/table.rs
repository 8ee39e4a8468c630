//! The table of nodes: what is known, what keeps it, and which of it is open.

use super::closed::{Closed, Closing};
use super::object::Object;
use super::seen::Seen;
use crate::descriptor::NodeBook;
use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque, btree_map::Entry as Slot},
    sync::Arc,
    vec::Vec,
};
use core::mem;
use culvert::Node;

/// How many nodes are looked at to find one that can be closed.
const CANDIDATES: usize = 64;

/// From how many places on empty ones are given back.
const SPARSE: usize = 1024;

/// A node as one table of descriptors has it.
pub(super) type Key = (usize, Node);

/// A node that the front end, an open file or a node below keeps.
pub(super) struct Known {
    pub state: NodeState,
    /// References of the front end.
    pub references: u64,
    /// Open files that need it, and nodes below.
    pub pins: u32,
    /// Those of `pins` that are open files: it is not closed.
    pub files: u32,
    /// Since the clock's hand last came by.
    pub used: bool,
    /// One of `pins` is for its having been looked in lately.
    pub recent: bool,
    /// The directory that is pinned for this node; none for those in the root.
    pub parent: Option<Key>,
    /// Its name there, where it may be needed.
    pub name: Option<Box<[u8]>>,
    /// Which entry of the table it is, counted from 1.
    pub entered: u64,
}

pub(super) enum NodeState {
    Open {
        object: Arc<Object>,
        /// In the ring.
        place: u32,
    },
    Closed(Box<Closed>),
    /// Known by its name alone.
    Seen(Box<Seen>),
}

impl Known {
    pub fn new(state: NodeState) -> Self {
        Self {
            state,
            references: 0,
            pins: 0,
            files: 0,
            used: false,
            recent: false,
            parent: None,
            name: None,
            entered: 0,
        }
    }

    /// With a descriptor.
    pub fn object(&self) -> Option<&Arc<Object>> {
        match &self.state {
            NodeState::Open { object, .. } => Some(object),
            NodeState::Closed(_) | NodeState::Seen(_) => None,
        }
    }

    /// `st_dev` and `st_ino`.
    pub fn identity(&self) -> (u64, u64) {
        match &self.state {
            NodeState::Open { object, .. } => object.identity,
            NodeState::Closed(closed) => closed.identity,
            NodeState::Seen(seen) => seen.identity,
        }
    }

    /// Writes down in `book` what the front end has of `node`.
    pub fn note(&self, node: Node, book: Option<&'static dyn NodeBook>) {
        match &self.state {
            NodeState::Open { object, .. } => object.note(node, self.references),
            NodeState::Closed(closed) => closed.note(book, self.references),
            // Only in programs, which have no book.
            NodeState::Seen(_) => {}
        }
    }
}

/// All that is known, and which of it is open.
#[derive(Default)]
pub(super) struct NodeTable {
    pub known: BTreeMap<Key, Known>,
    /// How many entries there were ever.
    pub entered: u64,
    /// Where what is closed is written down for a server after this one.
    book: Option<&'static dyn NodeBook>,
    ring: Ring,
    /// Directories that were looked in lately, the oldest first.
    pub recent: VecDeque<Key>,
}

impl NodeTable {
    /// An empty one; what is closed is written down in `book`.
    pub fn new(book: Option<&'static dyn NodeBook>) -> Self {
        Self {
            book,
            ..Self::default()
        }
    }

    /// How many have no descriptor.
    pub fn closed(&self) -> usize {
        self.known.len() - self.ring.count
    }

    /// `key` has this object from here on; unless it has one by now. The one that counts; none: it
    /// is not known any more.
    pub fn open(&mut self, key: Key, object: Arc<Object>) -> Option<Arc<Object>> {
        let known = self.known.get_mut(&key)?;
        if let NodeState::Open { object, .. } = &known.state {
            return Some(object.clone());
        }
        let place = self.ring.enter(key);
        let closed = mem::replace(&mut known.state, NodeState::Open { object, place });
        known.note(key.1, self.book);
        // In the book it stands in two places for a moment, never in none.
        if let NodeState::Closed(closed) = closed {
            closed.take_back(self.book);
        }
        known.object().cloned()
    }

    /// A node that was not known, with its object.
    pub fn insert(&mut self, key: Key, object: Arc<Object>, count: impl FnOnce(&mut Known)) {
        let place = self.ring.enter(key);
        let mut new = Known::new(NodeState::Open { object, place });
        count(&mut new);
        new.note(key.1, self.book);
        self.entered += 1;
        new.entered = self.entered;
        self.known.insert(key, new);
    }

    /// What the server before this one knew, and had no descriptor for.
    pub fn insert_closed(&mut self, key: Key, closed: Closed, references: u64) {
        let mut known = Known::new(NodeState::Closed(Box::new(closed)));
        known.references = references;
        self.entered += 1;
        known.entered = self.entered;
        self.known.insert(key, known);
    }

    /// Closes what was not used for long, until as many are open as may be.
    pub fn make_room(&mut self, closing: &Closing) {
        for _ in 0..CANDIDATES {
            if self.ring.count <= closing.limit {
                return;
            }
            let Some(key) = self.ring.next() else {
                return;
            };
            let Some(known) = self.known.get_mut(&key) else {
                continue;
            };
            let NodeState::Open { object, place } = &known.state else {
                continue;
            };
            if mem::take(&mut known.used) || known.files > 0 || Arc::strong_count(object) > 1 {
                continue;
            }
            if let Some(mut closed) = closing.close(object, known.name.is_some()) {
                closed.put_away(self.book, key.1, known.references);
                self.ring.leave(*place);
                known.state = NodeState::Closed(Box::new(closed));
            }
        }
    }

    /// Gives the memory of the ring's empty places back, where they are most of it.
    fn close_ranks(&mut self) {
        if self.ring.places.len() < SPARSE || self.ring.count > self.ring.places.len() / 4 {
            return;
        }
        let mut closer = Ring::default();
        for key in self.ring.in_order() {
            let found = self.known.get_mut(&key).map(|known| &mut known.state);
            if let Some(NodeState::Open { place, .. }) = found {
                *place = closer.enter(key);
            }
        }
        self.ring = closer;
    }

    /// Makes `parent` the directory that `node` keeps.
    pub fn hang(&mut self, node: Key, parent: Option<Key>) {
        let parent = parent.filter(|&parent| parent != node);
        // What nothing hangs on is above nothing: without the walk up, that a new name in a deep
        // tree would cost each time.
        let carries = |known: &Known| known.pins > known.files;
        if let Some(parent) = parent
            && self.known.get(&node).is_some_and(carries)
        {
            self.loosen(node, parent);
        }
        let parent = parent.and_then(|parent| {
            self.known.get_mut(&parent)?.pins += 1;
            Some(parent)
        });
        let child = self.known.get_mut(&node);
        let old = child.and_then(|child| mem::replace(&mut child.parent, parent));
        if let Some(old) = old {
            self.release(old, |old| old.pins -= 1);
        }
    }

    /// What is above `parent` hangs on `node` no longer: others have moved it, and what hangs in a
    /// circle is never followed to its end.
    fn loosen(&mut self, node: Key, parent: Key) {
        let mut next = Some(parent);
        while let Some(key) = next {
            let Some(known) = self.known.get_mut(&key) else {
                return;
            };
            next = known.parent;
            if next == Some(node) {
                (known.parent, known.name) = (None, None);
                if let Some(node) = self.known.get_mut(&node) {
                    node.pins -= 1;
                }
                return;
            }
        }
    }

    /// `node` was seen as `name` in `dir`; none: in the root. It keeps that directory from here on,
    /// unless it is above it: then others have moved both, and what was seen is past.
    pub fn name(&mut self, node: Key, dir: Option<Key>, name: &[u8]) {
        let Some(known) = self.known.get_mut(&node) else {
            return;
        };
        if known.parent == dir && known.name.as_deref() == Some(name) {
            return;
        }
        known.name = None;
        let mut above = dir;
        while let Some(key) = above {
            let found = self.known.get(&key);
            if key == node || found.is_none() {
                return;
            }
            above = found.and_then(|found| found.parent);
        }
        self.hang(node, dir);
        if let Some(known) = self.known.get_mut(&node) {
            known.name = Some(name.into());
        }
    }

    /// `name` in `dir` is not `node` any more.
    pub fn unname(&mut self, node: Key, dir: Option<Key>, name: &[u8]) {
        if let Some(known) = self.known.get_mut(&node)
            && known.parent == dir
            && known.name.as_deref() == Some(name)
        {
            known.name = None;
        }
    }

    /// Drops a count on `node`; what nobody keeps any more is closed, and so on upwards.
    pub fn release(&mut self, node: Key, count: impl FnOnce(&mut Known)) {
        let Some(found) = self.known.get_mut(&node) else {
            return;
        };
        count(found);
        let mut unkept = Some(node);
        while let Some(node) = unkept.take() {
            let Slot::Occupied(found) = self.known.entry(node) else {
                return;
            };
            if found.get().references > 0 || found.get().pins > 0 {
                return;
            }
            let gone = found.remove();
            match gone.state {
                NodeState::Open { place, .. } => {
                    self.ring.leave(place);
                    self.close_ranks();
                }
                NodeState::Closed(closed) => closed.take_back(self.book),
                NodeState::Seen(_) => {}
            }
            if let Some(parent) = gone.parent
                && let Some(above) = self.known.get_mut(&parent)
            {
                above.pins -= 1;
                unkept = Some(parent);
            }
        }
    }
}

/// Open nodes in the order in which a clock's hand comes by ("second chance": Corbató, "A paging
/// experiment with the Multics system", 1968).
#[derive(Default)]
struct Ring {
    places: Vec<Option<Key>>,
    free: Vec<u32>,
    hand: usize,
    count: usize,
}

impl Ring {
    fn enter(&mut self, key: Key) -> u32 {
        self.count += 1;
        let place = self.free.pop().unwrap_or(self.places.len() as u32);
        match self.places.get_mut(place as usize) {
            Some(free) => *free = Some(key),
            None => self.places.push(Some(key)),
        }
        place
    }

    fn leave(&mut self, place: u32) {
        if let Some(left) = self.places.get_mut(place as usize)
            && left.take().is_some()
        {
            self.count -= 1;
            self.free.push(place);
        }
    }

    /// All that are open, the next one first.
    fn in_order(&self) -> impl Iterator<Item = Key> {
        let (passed, coming) = self.places.split_at(self.hand.min(self.places.len()));
        coming.iter().chain(passed).flatten().copied()
    }

    /// The next one that is open.
    fn next(&mut self) -> Option<Key> {
        for _ in 0..self.places.len() {
            let here = self.hand;
            self.hand = (here + 1) % self.places.len();
            if let Some(Some(key)) = self.places.get(here) {
                return Some(*key);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::closed::Handle;
    use super::*;

    #[test]
    fn what_others_move_into_each_other_hangs_in_no_circle() {
        let mut table = NodeTable::default();
        let [a, b, file] = [1, 2, 3].map(|node| (0, Node(node)));
        for key in [a, b, file] {
            let closed = Closed {
                identity: (0, key.1.0),
                birth: 1,
                kind: culvert::FileKind::Directory,
                handle: None,
                away: 0,
            };
            let mut known = Known::new(NodeState::Closed(Box::new(closed)));
            known.references = 1;
            table.known.insert(key, known);
        }
        table.name(b, Some(a), b"b");
        // B has come out of A, and A into it.
        table.hang(a, Some(b));
        table.name(file, Some(a), b"file");
        let kept = [a, b, file].map(|key| (table.known[&key].parent, table.known[&key].pins));
        assert_eq!(kept, [(Some(b), 1), (None, 1), (Some(a), 0)]);
    }

    #[test]
    fn the_hand_comes_by_all_that_is_open() {
        let mut ring = Ring::default();
        let places: Vec<u32> = (0..5).map(|node| ring.enter((0, Node(node)))).collect();
        ring.leave(places[1]);
        ring.leave(places[3]);
        ring.leave(places[3]);
        assert_eq!(ring.count, 3);
        let mut seen: Vec<u64> = (0..4).filter_map(|_| Some(ring.next()?.1.0)).collect();
        assert_eq!(seen, [0, 2, 4, 0]);
        assert!(places.contains(&ring.enter((0, Node(9)))));
        seen = (0..4).filter_map(|_| Some(ring.next()?.1.0)).collect();
        assert!(seen.contains(&9) && ring.places.len() == 5);
        assert!(Ring::default().next().is_none());
    }

    /// What many nodes took is given back, and the hand goes on where it was.
    #[test]
    fn a_ring_with_few_nodes_left_is_small() {
        let mut table = NodeTable::default();
        let open = |table: &mut NodeTable, node: u64| {
            let key = (0, Node(node));
            let place = table.ring.enter(key);
            let object = Object::fake((0, node));
            let mut known = Known::new(NodeState::Open { object, place });
            known.references = 1;
            table.known.insert(key, known);
        };
        (0..4 * SPARSE as u64).for_each(|node| open(&mut table, node));
        for _ in 0..3 {
            let _ = table.ring.next();
        }
        for node in (0..4 * SPARSE as u64).filter(|node| node % 1000 != 2) {
            table.release((0, Node(node)), |known| known.references -= 1);
        }
        assert!(table.ring.places.len() < SPARSE && table.ring.places.capacity() < 2 * SPARSE);
        assert_eq!((table.ring.count, table.closed()), (5, 0));
        let mut seen: Vec<u64> = (0..5)
            .filter_map(|_| Some(table.ring.next()?.1.0))
            .collect();
        assert_eq!(seen, [1002, 2002, 3002, 4002, 2]);
        table.release((0, Node(3002)), |known| known.references -= 1);
        seen = (0..4)
            .filter_map(|_| Some(table.ring.next()?.1.0))
            .collect();
        assert_eq!(seen, [1002, 2002, 4002, 2]);
    }

    /// Bytes of memory that are this process's alone.
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").expect("it is there");
        let field = |at: usize| -> usize { text.split(' ').nth(at).unwrap().parse().unwrap() };
        (field(1) - field(2)) * 4096
    }

    /// What a node costs that has no descriptor, of many. By hand (docs/testing.md): 2.5 GB.
    #[test]
    #[ignore = "takes 2.5 GB"]
    fn ten_million_nodes_in_280_bytes_each() {
        const COUNT: u64 = 10_000_000;
        // What the first table gives back is the second's, if the allocator keeps it: then the
        // larger of both is seen.
        let before = resident();
        // As inodes come: one after the other, or from anywhere.
        for (order, step) in [("ascending", 1), ("any", 7_654_321)] {
            let mut table = NodeTable::default();
            let node = |number: u64| (0, Node(number * step % COUNT + 1));
            let start = std::time::Instant::now();
            for key in (0..COUNT).map(node) {
                let closed = Closed {
                    identity: (1, key.1.0),
                    birth: key.1.0,
                    kind: culvert::FileKind::Regular,
                    handle: Some(Handle::fake()),
                    away: 0,
                };
                let mut known = Known::new(NodeState::Closed(Box::new(closed)));
                known.references = 1;
                known.parent = Some((0, Node(1)));
                table.known.insert(key, known);
            }
            let (made, each) = (start.elapsed(), (resident() - before) as u64 / COUNT);
            let found = (0..COUNT)
                .map(node)
                .filter(|key| table.known.contains_key(key));
            let (found, looked) = (found.count(), start.elapsed() - made);
            for key in (0..COUNT).map(node) {
                table.release(key, |known| known.references -= 1);
            }
            let forgotten = start.elapsed() - made - looked;
            std::println!(
                "{order}: {each} bytes each; made {made:?}, found {looked:?}, forgotten \
                {forgotten:?}"
            );
            assert!(
                found as u64 == COUNT && table.known.is_empty() && each <= 280,
                "{each}"
            );
        }
    }
}
