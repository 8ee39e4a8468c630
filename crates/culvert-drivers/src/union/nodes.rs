//! The nodes that the front end knows, and what they are on the branches.
//!
//! The number of a node is computed: of a file from its branch and its node there, of a directory
//! likewise from the oldest of those that it is made of. So it is the same in every process, and
//! stays when a directory is renamed, or made on one branch more: that one is younger. What is
//! known of it is this process's own, and is filled by lookups.
//!
//! Of a file on a directory tree of the kernel's no more may be known than its name (`count` 0):
//! what is done to it looks it up there, and is `ESTALE` should the name be another's by then,
//! whereupon front ends look for it again. Directories stay known for a while after they were used.
//!
//! A child of vfork(2) shares this memory, but not the descriptors of branches: what it looks up is
//! entered for its own table of descriptors, and it finds what its parent knows.

use super::branch::{Branch, Tree};
use super::table::{Key, Table, rank};
pub use super::table::{Known, Member, Seen};
use crate::{Keeper, holds::Holds};
use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::Ordering::Relaxed;
use culvert::{Errno, FileKind, Node, Result, sync::Mutex};

/// All nodes of a union in this process.
pub struct Nodes {
    table: Mutex<Table>,
    keeper: Keeper,
    /// Whether directories stay known after their use.
    keeps_recent: bool,
}

/// References to be given back to branches, when no lock is held.
#[must_use]
pub struct Returned(Vec<Member>);

impl Returned {
    /// Gives them back.
    pub fn give_back(self) {
        for member in self.0.iter().filter(|member| member.count > 0) {
            member.tree.fs.forget(member.node, member.count);
        }
    }
}

impl Nodes {
    /// A table with the root, made of the roots of `branches`.
    pub fn new(root: Node, branches: &[Branch], keeper: Keeper, keeps_recent: bool) -> Self {
        let member = |branch: &Branch| Member {
            tree: Arc::clone(&branch.tree),
            node: branch.fs.root(),
            count: 0,
        };
        let known = Known {
            kind: FileKind::Directory,
            members: branches.iter().map(member).collect(),
            place: None,
            inode: root.0,
            birth: None,
            entered: 0,
            recent: true,
            pins_above: false,
            references: 1,
            pins: 0,
            holds: Holds::default(),
        };
        let mut table = Table {
            order: branches.iter().map(|branch| branch.id).collect(),
            ..Table::default()
        };
        for member in &known.members {
            table.parts.insert((0, member.tree.id, member.node), root);
        }
        table.known.insert((0, root), known);
        Self {
            table: Mutex::new(table),
            keeper,
            keeps_recent,
        }
    }

    /// What `look` makes of what is known of `node`; `ESTALE` when nobody keeps it.
    pub fn with<T>(&self, node: Node, look: impl FnOnce(&mut Known) -> T) -> Result<T> {
        let mut table = self.table.lock();
        let key = table.key(self.keeper.table(), node);
        let known = table.known.get_mut(&key).ok_or(Errno::ESTALE)?;
        Ok(look(known))
    }

    /// The present: what comes into the table later is not what was asked for before.
    pub fn now(&self) -> u64 {
        self.table.lock().entered
    }

    /// The node that `member` of a directory is part of.
    pub fn part_of(&self, tree: &Tree, node: Node) -> Option<Node> {
        let table = self.table.lock();
        table.part_of(self.keeper.table(), (tree.id, node))
    }

    /// The same for the time until it is unpinned, should it have been known when the table was as
    /// old as `asked`.
    pub fn pin_part(&self, tree: &Tree, node: Node, asked: u64) -> Option<Node> {
        let mut table = self.table.lock();
        let of = self.keeper.table();
        let node = *table.parts.get(&(of, tree.id, node))?;
        let known = table.known.get_mut(&(of, node))?;
        if known.entered > asked {
            return None;
        }
        known.pins += 1;
        Some(node)
    }

    /// Whether the directory `node` is to stay known for a while, should all its parts be such as
    /// `may_stay` says, which is asked once.
    pub fn stays(&self, node: Node, may_stay: impl FnOnce() -> bool) -> bool {
        let is_recent = self.with(node, |known| known.recent).unwrap_or(false);
        self.keeps_recent && (is_recent || may_stay())
    }

    /// The directory that was seen last as `name` in `dir`, with one reference, should it have been
    /// used lately.
    pub fn used_lately(&self, dir: Node, name: &[u8]) -> Option<Node> {
        let mut table = self.table.lock();
        if self.keeper.table() != 0 {
            return None;
        }
        let is = |key: &&Key| {
            let known = table.known.get(key);
            let place = known.and_then(|known| known.place.as_ref());
            place.is_some_and(|(above, called)| (*above, &called[..]) == (dir, name))
        };
        let key = table.recent.iter().find(is).copied()?;
        table.known.get_mut(&key)?.references += 1;
        Some(key.1)
    }

    /// Whether one lookup knows `node`, and nothing keeps it: what is done to it is of the same
    /// call.
    pub fn is_looked_up_once(&self, node: Node) -> bool {
        let once = self.with(node, |known| (known.references, known.pins) == (1, 0));
        once.unwrap_or(false)
    }

    /// The branch has given a reference on `member` of `node`, which was known by its name.
    pub fn firm(&self, node: Node, member: Member) -> Returned {
        let mut table = self.table.lock();
        let key = (self.keeper.table(), node);
        let known = table.known.get_mut(&key);
        let same = |one: &&mut Member| one.is(&member);
        match known.and_then(|known| known.members.iter_mut().find(same)) {
            Some(there) => {
                there.count += member.count;
                Returned(Vec::new())
            }
            None => Returned(Vec::from([member])),
        }
    }

    /// One reference on what was `seen` as `name` in `dir`; none of either: it has no name.
    pub fn enter(&self, place: Option<(Node, &[u8])>, seen: Seen) -> (Result<Node>, Returned) {
        let mut table = self.table.lock();
        let of = self.keeper.table();
        let node = table.number(of, place, &seen);
        let stays = seen.kind == FileKind::Directory && seen.stays;
        let mut result = table.add((of, node), place, seen);
        if let Ok(returned) = &mut result {
            let known = table.known.get_mut(&(of, node));
            known.expect("it was added").references += 1;
            if stays && self.keeps_recent {
                table.used((of, node));
                returned.extend(table.drain_unkept());
            }
        }
        match result {
            Ok(returned) => (Ok(node), Returned(returned)),
            Err((error, returned)) => (Err(error), Returned(returned)),
        }
    }

    /// Directory `node` is `member`, too, which has one reference. What was found on a branch that
    /// has gone meanwhile is nothing.
    pub fn extend(&self, node: Node, member: Member) -> Returned {
        let mut table = self.table.lock();
        let table = &mut *table;
        let of = self.keeper.table();
        let known = table.known.get_mut(&(of, node));
        let known = known.filter(|_| rank(&table.order, &member.tree) != usize::MAX);
        let Some(known) = known else {
            return Returned(Vec::from([member]));
        };
        match known
            .members
            .iter_mut()
            .find(|one| one.tree.id == member.tree.id)
        {
            Some(there) if there.node == member.node => there.count += 1,
            Some(there) => {
                let part = (of, member.tree.id, member.node);
                let before = core::mem::replace(there, member);
                table.parts.remove(&(of, before.tree.id, before.node));
                table.parts.insert(part, node);
                return Returned(Vec::from([before]));
            }
            None => {
                let part = (of, member.tree.id, member.node);
                known.members.push(member);
                known
                    .members
                    .sort_by_key(|member| rank(&table.order, &member.tree));
                table.parts.insert(part, node);
            }
        }
        Returned(Vec::new())
    }

    /// `node` is `name` in `dir` by now.
    pub fn renamed(&self, node: Node, (dir, name): (Node, &[u8])) -> Returned {
        let mut table = self.table.lock();
        table.put((self.keeper.table(), node), Some((dir, name)));
        Returned(table.drain_unkept())
    }

    /// From now on there are `branches`. What lies on others is there no more, but for what is
    /// open.
    pub fn reshape(&self, root: Node, branches: &[Branch]) -> Returned {
        let mut table = self.table.lock();
        let mut returned = Vec::new();
        let table = &mut *table;
        table.order = branches.iter().map(|branch| branch.id).collect();
        for member in table.known.values().flat_map(|known| &known.members) {
            let left = rank(&table.order, &member.tree) == usize::MAX;
            member.tree.left.store(left, Relaxed);
        }
        for branch in branches {
            branch.left.store(false, Relaxed);
        }
        for (key, known) in &mut table.known {
            let is_open = known.kind != FileKind::Directory && known.pins > 0;
            let mut members = core::mem::take(&mut known.members);
            members.sort_by_key(|member| rank(&table.order, &member.tree));
            for member in members {
                if is_open || rank(&table.order, &member.tree) != usize::MAX {
                    known.members.push(member);
                    continue;
                }
                let part = (key.0, member.tree.id, member.node);
                if table.parts.get(&part) == Some(&key.1) {
                    table.parts.remove(&part);
                }
                returned.push(member);
            }
            if key.1 == root {
                for (at, branch) in branches.iter().enumerate() {
                    let node = branch.fs.root();
                    let there = known.members.get(at);
                    if there.is_none_or(|there| there.tree.id != branch.id) {
                        let tree = Arc::clone(&branch.tree);
                        let count = 0;
                        known.members.insert(at, Member { tree, node, count });
                        table.parts.insert((key.0, branch.id, node), root);
                    }
                }
            }
        }
        Returned(returned)
    }

    /// Directories do not stay known for having been used.
    pub fn forget_recent(&self) -> Returned {
        let mut table = self.table.lock();
        while let Some(key) = table.recent.pop_front() {
            table.unused(key);
        }
        Returned(table.drain_unkept())
    }

    /// An open file keeps `node`.
    pub fn pin(&self, node: Node) -> Result<()> {
        self.with(node, |known| known.pins += 1)
    }

    /// It does no more.
    pub fn unpin(&self, node: Node) -> Returned {
        self.drop_count(node, |known| known.pins = known.pins.saturating_sub(1))
    }

    /// The same as [`Self::pin`]; by what comes of it [`Self::unpin_open`] ends it, whoever calls
    /// that: what a child of vfork(2) has opened its parent drops.
    pub fn pin_open(&self, node: Node) -> Result<Key> {
        let mut table = self.table.lock();
        let key = table.key(self.keeper.table(), node);
        let known = table.known.get_mut(&key).ok_or(Errno::ESTALE)?;
        known.pins += 1;
        Ok(key)
    }

    /// An open file keeps `key` no more.
    pub fn unpin_open(&self, key: Key) -> Returned {
        let returned = self.drop_count_at(key, |known| {
            known.pins = known.pins.saturating_sub(1);
        });
        match key.0 == self.keeper.table() {
            true => returned,
            // Branches count by who calls, and would take it from what is the caller's.
            false => Returned(Vec::new()),
        }
    }

    /// The front end drops `count` references.
    pub fn forget(&self, node: Node, count: u64) -> Returned {
        self.drop_count(node, |known| {
            known.references = known.references.saturating_sub(count);
        })
    }

    /// The front end holds `node`; what is to be held on branches when it is the first hold.
    pub fn hold(&self, node: Node) -> Result<Vec<(Arc<Tree>, Node)>> {
        self.with(node, |known| {
            known.pins += 1;
            let all = known.members.iter();
            let each = all.map(|member| (Arc::clone(&member.tree), member.node));
            known.holds.begin(each)
        })
    }

    /// The end of a hold; what is to be released on branches when it was the last.
    pub fn release(&self, node: Node) -> (Vec<(Arc<Tree>, Node)>, Returned) {
        let mut held = Vec::new();
        let returned = self.drop_count(node, |known| {
            known.pins = known.pins.saturating_sub(1);
            held = known.holds.end();
        });
        (held, returned)
    }

    /// In a child of vfork only what is its own: the parent's counts stay the parent's.
    fn drop_count(&self, node: Node, count: impl FnOnce(&mut Known)) -> Returned {
        self.drop_count_at((self.keeper.table(), node), count)
    }

    fn drop_count_at(&self, key: Key, count: impl FnOnce(&mut Known)) -> Returned {
        let mut table = self.table.lock();
        let mut returned = Vec::new();
        if let Some(known) = table.known.get_mut(&key) {
            count(known);
            // What was open on what is a branch no more: of what is no directory there is one
            // member.
            let is_open = known.kind == FileKind::Directory || known.pins > 0;
            let left = |member: &mut Member| !is_open && member.tree.left.load(Relaxed);
            returned.extend(known.members.pop_if(left));
            table.unkept(key);
        }
        returned.extend(table.drain_unkept());
        Returned(returned)
    }
}
