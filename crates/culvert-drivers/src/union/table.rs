//! The table of nodes: what each of them is made of, and who keeps it.

use super::branch::Tree;
use crate::holds::Holds;
use alloc::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    vec::Vec,
};
use culvert::{Errno, Error, FileKind, Node, Timespec};

/// How many directories stay known after their use.
const RECENT: usize = 16;

/// Which node, in which table of descriptors.
pub type Key = (usize, Node);

/// What a node is on one branch.
#[derive(Clone)]
pub struct Member {
    /// The branch's.
    pub tree: Arc<Tree>,
    /// Its node there.
    pub node: Node,
    /// References that the branch has given; none: it is known by its name.
    pub count: u64,
}

impl Member {
    /// Whether it is the same as `other`.
    pub fn is(&self, other: &Self) -> bool {
        (self.tree.id, self.node) == (other.tree.id, other.node)
    }
}

/// What is known of a node.
pub struct Known {
    /// What it is.
    pub kind: FileKind,
    /// Where it is, in the order of branches: of what is no directory one.
    pub members: Vec<Member>,
    /// Where it was seen last: a directory, and a name in it.
    pub place: Option<(Node, Vec<u8>)>,
    /// `st_ino`.
    pub inode: u64,
    /// When it was made, where that is known.
    pub birth: Option<Timespec>,
    /// When it came into the table, which counts.
    pub entered: u64,
    /// One pin is for its having been used lately.
    pub recent: bool,
    /// It has a pin on the directory of its place.
    pub pins_above: bool,
    pub references: u64,
    /// Nodes below it, and open files.
    pub pins: u64,
    pub holds: Holds<(Arc<Tree>, Node)>,
}

impl Known {
    /// One more reference of the front end's.
    pub const fn refer(&mut self) {
        self.references += 1;
    }
}

/// What a lookup found.
pub struct Seen {
    /// The number that it has unless it is known by another.
    pub node: Node,
    /// As [`Known::kind`].
    pub kind: FileKind,
    /// As [`Known::members`], each with one reference.
    pub members: Vec<Member>,
    /// As [`Known::inode`].
    pub inode: u64,
    /// When the first of the members was made.
    pub birth: Option<Timespec>,
    /// A moment before it was looked for ([`Nodes::now`]).
    pub asked: u64,
    /// A directory that is to stay known for a while.
    pub stays: bool,
}

/// It.
#[derive(Default)]
pub struct Table {
    /// The branches that there are, by [`Tree::id`], in the order in which they are asked.
    pub order: Vec<usize>,
    pub known: BTreeMap<Key, Known>,
    /// Which node a directory of a branch is part of.
    pub parts: BTreeMap<(usize, usize, Node), Node>,
    /// Those that nobody keeps any more, for a moment.
    pub gone: Vec<Key>,
    /// Directories that were used lately, the oldest first.
    pub recent: VecDeque<Key>,
    /// How many came into the table.
    pub entered: u64,
}

/// The place of `tree` in `order`; of one that is no branch, behind all.
pub fn rank(order: &[usize], tree: &Tree) -> usize {
    let found = order.iter().position(|&id| id == tree.id);
    found.unwrap_or(usize::MAX)
}

impl Table {
    /// Where `node` stands for those with descriptor table `of`: their own, or the process's.
    pub fn key(&self, of: usize, node: Node) -> Key {
        match of != 0 && !self.known.contains_key(&(of, node)) {
            true => (0, node),
            false => (of, node),
        }
    }

    pub fn part_of(&self, of: usize, (index, node): (usize, Node)) -> Option<Node> {
        let own = self.parts.get(&(of, index, node));
        own.or_else(|| self.parts.get(&(0, index, node))).copied()
    }

    /// The number of what was `seen` in `place`: the one by which that place's directory is known,
    /// should a part of it be one that was made at the same moment as another.
    pub fn number(&self, of: usize, place: Option<(Node, &[u8])>, seen: &Seen) -> Node {
        if seen.kind != FileKind::Directory {
            return seen.node;
        }
        let here = |node: &Node| {
            let known = self.known.get(&self.key(of, *node));
            let known = known.and_then(|known| known.place.as_ref());
            known.map(|(dir, name)| (*dir, &name[..])) == place
        };
        let parts = seen.members.iter();
        let mut known = parts.filter_map(|one| self.part_of(of, (one.tree.id, one.node)));
        known.find(here).unwrap_or(seen.node)
    }

    pub fn add(
        &mut self,
        key: Key,
        place: Option<(Node, &[u8])>,
        seen: Seen,
    ) -> core::result::Result<Vec<Member>, (Error, Vec<Member>)> {
        let (mut seen, mut returned) = (seen, Vec::new());
        let is_directory = seen.kind == FileKind::Directory;
        if is_directory {
            // By who began before branches came or went.
            let order = &self.order;
            let left = |member: &mut Member| rank(order, &member.tree) == usize::MAX;
            returned.extend(seen.members.extract_if(.., left));
            seen.members.sort_by_key(|member| rank(order, &member.tree));
            if seen.members.is_empty() {
                return Err((Errno::ESTALE.into(), returned));
            }
        }
        let parts: Vec<_> = seen
            .members
            .iter()
            .map(|one| (one.tree.id, one.node))
            .collect();
        match self.known.get_mut(&key) {
            Some(known) => {
                let same = |one: &Member| parts.contains(&(one.tree.id, one.node));
                if known.kind != seen.kind || !is_directory && !known.members.iter().all(same) {
                    let error = Error::because(Errno::EIO, "two nodes have one number");
                    returned.extend(seen.members);
                    return Err((error, returned));
                }
                // Nothing kept the number of one that is known by its name: it may be another's.
                let by_name = |members: &[Member]| members.iter().all(|one| one.count == 0);
                let reused = by_name(&known.members) && known.birth != seen.birth
                    || by_name(&seen.members) && known.entered > seen.asked;
                // A directory's references must not be somebody else's.
                let kept =
                    |one: &Member| one.count > 0 || known.members.iter().any(|old| old.is(one));
                if !is_directory && reused || is_directory && !seen.members.iter().all(kept) {
                    returned.extend(seen.members);
                    return Err((Errno::ESTALE.into(), returned));
                }
                let before = core::mem::replace(&mut known.members, seen.members);
                for old in before {
                    let new = |one: &&mut Member| one.is(&old);
                    match known.members.iter_mut().find(new) {
                        Some(still) => still.count += old.count,
                        None => {
                            self.parts.remove(&(key.0, old.tree.id, old.node));
                            returned.push(old);
                        }
                    }
                }
            }
            None if is_directory && seen.members.iter().any(|one| one.count == 0) => {
                returned.extend(seen.members);
                return Err((Errno::ESTALE.into(), returned));
            }
            None => {
                self.entered += 1;
                let known = Known {
                    kind: seen.kind,
                    members: seen.members,
                    place: None,
                    inode: seen.inode,
                    birth: seen.birth,
                    entered: self.entered,
                    recent: false,
                    pins_above: false,
                    references: 0,
                    pins: 0,
                    holds: Holds::default(),
                };
                self.known.insert(key, known);
            }
        }
        if is_directory {
            for (tree, node) in parts {
                self.parts.insert((key.0, tree, node), key.1);
            }
        }
        if place.is_some() {
            self.put(key, place);
        }
        returned.extend(self.drain_unkept());
        Ok(returned)
    }

    /// Directory `key` was used now.
    pub fn used(&mut self, key: Key) {
        match self.known.get_mut(&key) {
            Some(known) if !known.recent => {
                known.recent = true;
                known.pins += 1;
            }
            _ => return,
        }
        self.recent.push_back(key);
        if self.recent.len() > RECENT
            && let Some(oldest) = self.recent.pop_front()
        {
            self.unused(oldest);
        }
    }

    /// It was long ago.
    pub fn unused(&mut self, key: Key) {
        if let Some(known) = self.known.get_mut(&key) {
            known.recent = false;
            known.pins = known.pins.saturating_sub(1);
            self.unkept(key);
        }
    }

    /// `key` was seen in `place`, whose directory it keeps from here on; unless that lies below it:
    /// then others have moved both, and what was seen is past.
    pub fn put(&mut self, key: Key, place: Option<(Node, &[u8])>) {
        let (of, node) = key;
        let Some((dir, name)) = place else { return };
        let same = |known: &Known| {
            let place = known.place.as_ref();
            place.is_some_and(|place| (place.0, &place.1[..]) == (dir, name))
        };
        if self.known.get(&key).is_none_or(same) {
            return;
        }
        let mut above = Some(dir);
        while let Some(here) = above {
            let found = self.known.get(&self.key(of, here));
            if here == node || found.is_none() {
                return;
            }
            above = found.and_then(|found| found.place.as_ref().map(|place| place.0));
        }
        let Some(known) = self.known.get_mut(&key) else {
            return;
        };
        let before = known.place.replace((dir, name.into())).map(|place| place.0);
        if before == Some(dir) {
            return;
        }
        let pinned = known.pins_above;
        // What the parent of a child of vfork has is not the child's to count.
        let pins = self.known.get_mut(&(of, dir)).map(|known| known.pins += 1);
        if let Some(known) = self.known.get_mut(&key) {
            known.pins_above = pins.is_some();
        }
        if let Some(before) = before.filter(|_| pinned)
            && let Some(known) = self.known.get_mut(&(of, before))
        {
            known.pins = known.pins.saturating_sub(1);
            self.unkept((of, before));
        }
    }

    /// Notes `key` for [`Table::drain_unkept`] if nobody keeps it.
    pub fn unkept(&mut self, key: Key) {
        let keeps = |known: &Known| known.references > 0 || known.pins > 0;
        if self.known.get(&key).is_some_and(|known| !keeps(known)) {
            self.gone.push(key);
        }
    }

    /// Drops what nobody keeps, and so on upwards.
    pub fn drain_unkept(&mut self) -> Vec<Member> {
        let mut returned = Vec::new();
        while let Some(key) = self.gone.pop() {
            let Some(gone) = self.known.remove(&key) else {
                continue;
            };
            for member in &gone.members {
                let part = (key.0, member.tree.id, member.node);
                if self.parts.get(&part) == Some(&key.1) {
                    self.parts.remove(&part);
                }
            }
            returned.extend(gone.members);
            if let Some((above, _)) = gone.place.filter(|_| gone.pins_above)
                && let Some(known) = self.known.get_mut(&(key.0, above))
            {
                known.pins = known.pins.saturating_sub(1);
                self.unkept((key.0, above));
            }
        }
        returned
    }
}
