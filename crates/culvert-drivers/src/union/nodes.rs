//! The nodes that the front end knows, and what they are on the branches.
//!
//! The number of a node is computed: of a file from its branch and its node there, of a directory
//! likewise from the oldest of those that it is made of. So it is the same in every process, and
//! stays when a directory is renamed, or made on one branch more: that one is younger. What is
//! known of it is this process's own, and is filled by lookups.

use super::branch::Branch;
use alloc::{collections::BTreeMap, vec::Vec};
use culvert::{Errno, Error, FileKind, Node, Result, sync::Mutex};

/// What a node is on one branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which branch.
    pub index: usize,
    /// Its node there.
    pub node: Node,
    /// References that the branch has given.
    pub count: u64,
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
    references: u64,
    /// Nodes below it, and open files.
    pins: u64,
    /// Who holds it, and what is held on branches.
    holds: u64,
    held: Vec<(usize, Node)>,
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
}

/// All nodes of a union in this process.
pub struct Nodes(Mutex<Table>);

#[derive(Default)]
struct Table {
    known: BTreeMap<Node, Known>,
    /// Which node a directory of a branch is part of.
    parts: BTreeMap<(usize, Node), Node>,
    /// Those that nobody keeps any more, for a moment.
    gone: Vec<Node>,
}

/// References to be given back to branches, when no lock is held.
#[must_use]
pub struct Returned(Vec<Member>);

impl Returned {
    /// Gives them back.
    pub fn to(self, branches: &[Branch]) {
        for member in self.0 {
            branches[member.index].fs.forget(member.node, member.count);
        }
    }
}

impl Nodes {
    /// A table with the root, made of the roots of `branches`.
    pub fn new(root: Node, branches: &[Branch]) -> Self {
        let member = |(index, branch): (usize, &Branch)| Member {
            index,
            node: branch.fs.root(),
            count: 0,
        };
        let known = Known {
            kind: FileKind::Directory,
            members: branches.iter().enumerate().map(member).collect(),
            place: None,
            inode: root.0,
            references: 1,
            pins: 0,
            holds: 0,
            held: Vec::new(),
        };
        let mut table = Table::default();
        for member in &known.members {
            table.parts.insert((member.index, member.node), root);
        }
        table.known.insert(root, known);
        Self(Mutex::new(table))
    }

    /// What `look` makes of what is known of `node`; `ESTALE` when nobody keeps it.
    pub fn with<T>(&self, node: Node, look: impl FnOnce(&mut Known) -> T) -> Result<T> {
        let mut table = self.0.lock();
        let known = table.known.get_mut(&node).ok_or(Errno::ESTALE)?;
        Ok(look(known))
    }

    /// The node that `member` of a directory is part of.
    pub fn part_of(&self, index: usize, node: Node) -> Option<Node> {
        self.0.lock().parts.get(&(index, node)).copied()
    }

    /// One reference on what was `seen` as `name` in `dir`; none of either: it has no name.
    pub fn enter(&self, place: Option<(Node, &[u8])>, seen: Seen) -> (Result<Node>, Returned) {
        let mut table = self.0.lock();
        let node = table.number(place, &seen);
        let result = table.add(node, place, seen);
        if result.is_ok() {
            let known = table.known.get_mut(&node);
            known.expect("it was added").references += 1;
        }
        match result {
            Ok(returned) => (Ok(node), Returned(returned)),
            Err((error, returned)) => (Err(error), Returned(returned)),
        }
    }

    /// Directory `node` is `member`, too, which has one reference.
    pub fn extend(&self, node: Node, member: Member) -> Returned {
        let mut table = self.0.lock();
        let Some(known) = table.known.get_mut(&node) else {
            return Returned(Vec::from([member]));
        };
        match known
            .members
            .iter_mut()
            .find(|one| one.index == member.index)
        {
            Some(there) if there.node == member.node => there.count += 1,
            Some(there) => {
                let before = core::mem::replace(there, member);
                table.parts.remove(&(before.index, before.node));
                table.parts.insert((member.index, member.node), node);
                return Returned(Vec::from([before]));
            }
            None => {
                known.members.push(member);
                known.members.sort_by_key(|member| member.index);
                table.parts.insert((member.index, member.node), node);
            }
        }
        Returned(Vec::new())
    }

    /// `node` is `name` in `dir` by now.
    pub fn renamed(&self, node: Node, (dir, name): (Node, &[u8])) -> Returned {
        let mut table = self.0.lock();
        table.put(node, Some((dir, name)));
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

    /// The front end drops `count` references.
    pub fn forget(&self, node: Node, count: u64) -> Returned {
        self.drop_count(node, |known| {
            known.references = known.references.saturating_sub(count);
        })
    }

    /// The front end holds `node`; what is to be held on branches when it is the first hold.
    pub fn hold(&self, node: Node) -> Result<Vec<(usize, Node)>> {
        self.with(node, |known| {
            known.holds += 1;
            known.pins += 1;
            if known.holds > 1 {
                return Vec::new();
            }
            let all = known.members.iter();
            known.held = all.map(|member| (member.index, member.node)).collect();
            known.held.clone()
        })
    }

    /// The end of a hold; what is to be released on branches when it was the last.
    pub fn release(&self, node: Node) -> (Vec<(usize, Node)>, Returned) {
        let mut held = Vec::new();
        let returned = self.drop_count(node, |known| {
            known.pins = known.pins.saturating_sub(1);
            known.holds = known.holds.saturating_sub(1);
            if known.holds == 0 {
                held = core::mem::take(&mut known.held);
            }
        });
        (held, returned)
    }

    fn drop_count(&self, node: Node, count: impl FnOnce(&mut Known)) -> Returned {
        let mut table = self.0.lock();
        if let Some(known) = table.known.get_mut(&node) {
            count(known);
            table.unkept(node);
        }
        Returned(table.drain_unkept())
    }
}

impl Table {
    /// The number of what was `seen` in `place`: the one by which that place's directory is known,
    /// should a part of it be one that was made at the same moment as another.
    fn number(&self, place: Option<(Node, &[u8])>, seen: &Seen) -> Node {
        if seen.kind != FileKind::Directory {
            return seen.node;
        }
        let here = |node: &&Node| {
            let known = self.known.get(node).and_then(|known| known.place.as_ref());
            known.map(|(dir, name)| (*dir, &name[..])) == place
        };
        let parts = seen.members.iter();
        let mut known = parts.filter_map(|one| self.parts.get(&(one.index, one.node)));
        *known.find(here).unwrap_or(&seen.node)
    }

    fn add(
        &mut self,
        node: Node,
        place: Option<(Node, &[u8])>,
        seen: Seen,
    ) -> core::result::Result<Vec<Member>, (Error, Vec<Member>)> {
        let mut returned = Vec::new();
        let is_directory = seen.kind == FileKind::Directory;
        let parts: Vec<_> = seen
            .members
            .iter()
            .map(|one| (one.index, one.node))
            .collect();
        match self.known.get_mut(&node) {
            Some(known) => {
                let same = |one: &Member| parts.contains(&(one.index, one.node));
                if known.kind != seen.kind || !is_directory && !known.members.iter().all(same) {
                    let error = Error::because(Errno::EIO, "two nodes have one number");
                    return Err((error, seen.members));
                }
                let before = core::mem::replace(&mut known.members, seen.members);
                for old in before {
                    let new = |one: &&mut Member| (one.index, one.node) == (old.index, old.node);
                    match known.members.iter_mut().find(new) {
                        Some(still) => still.count += old.count,
                        None => {
                            self.parts.remove(&(old.index, old.node));
                            returned.push(old);
                        }
                    }
                }
            }
            None => {
                let known = Known {
                    kind: seen.kind,
                    members: seen.members,
                    place: None,
                    inode: seen.inode,
                    references: 0,
                    pins: 0,
                    holds: 0,
                    held: Vec::new(),
                };
                self.known.insert(node, known);
            }
        }
        if is_directory {
            for part in parts {
                self.parts.insert(part, node);
            }
        }
        if place.is_some() {
            self.put(node, place);
        }
        returned.extend(self.drain_unkept());
        Ok(returned)
    }

    /// `node` was seen in `place`, whose directory it keeps from here on; unless that lies below
    /// it: then others have moved both, and what was seen is past.
    fn put(&mut self, node: Node, place: Option<(Node, &[u8])>) {
        let Some((dir, name)) = place else { return };
        let mut above = Some(dir);
        while let Some(here) = above {
            let found = self.known.get(&here);
            if here == node || found.is_none() {
                return;
            }
            above = found.and_then(|found| found.place.as_ref().map(|place| place.0));
        }
        let Some(known) = self.known.get_mut(&node) else {
            return;
        };
        let before = known.place.replace((dir, name.into())).map(|place| place.0);
        if before == Some(dir) {
            return;
        }
        if let Some(known) = self.known.get_mut(&dir) {
            known.pins += 1;
        }
        if let Some(before) = before
            && let Some(known) = self.known.get_mut(&before)
        {
            known.pins = known.pins.saturating_sub(1);
            self.unkept(before);
        }
    }

    /// Notes `node` for [`Table::drain_unkept`] if nobody keeps it.
    fn unkept(&mut self, node: Node) {
        let keeps = |known: &Known| known.references > 0 || known.pins > 0;
        if self.known.get(&node).is_some_and(|known| !keeps(known)) {
            self.gone.push(node);
        }
    }

    /// Drops what nobody keeps, and so on upwards.
    fn drain_unkept(&mut self) -> Vec<Member> {
        let mut returned = Vec::new();
        while let Some(node) = self.gone.pop() {
            let Some(gone) = self.known.remove(&node) else {
                continue;
            };
            for member in &gone.members {
                if self.parts.get(&(member.index, member.node)) == Some(&node) {
                    self.parts.remove(&(member.index, member.node));
                }
            }
            returned.extend(gone.members);
            if let Some((above, _)) = gone.place
                && let Some(known) = self.known.get_mut(&above)
            {
                known.pins = known.pins.saturating_sub(1);
                self.unkept(above);
            }
        }
        returned
    }
}
