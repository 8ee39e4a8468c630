//! Which nodes the front end knows, and what they are in the layers.
//!
//! A node has the number of the lower file that it is, or was copied from, so that it stays when it
//! is copied. What is known of it is this process's own. What others have copied is found by its
//! place.
//!
//! A child of vfork(2) shares this memory, but not the descriptors of layers: what it looks up is
//! entered for its own table of descriptors, and it finds what its parent knows.

use super::parts::{Part, Parts, both};
use crate::{Keeper, holds::Holds};
use alloc::{collections::BTreeMap, vec::Vec};
use culvert::{Errno, FileKind, Node, Result, sync::Mutex};

/// Which node, in which table of descriptors.
pub type Key = (usize, Node);

/// A directory, and a name in it.
pub type Place = (Node, Vec<u8>);

/// What is known of a node.
pub struct Known {
    /// What it is.
    pub kind: FileKind,
    /// What it is in the layers.
    pub parts: Parts,
    /// Where it was seen last.
    pub place: Option<Place>,
    /// How many changes were known when it was found, or looked for again.
    pub checked: u64,
    /// It has lost the name that it had there.
    pub gone: bool,
    /// The upper part of a directory says already that there may be copies in it.
    pub impure: bool,
    /// It has a pin on the directory of its place.
    pins_above: bool,
    references: u64,
    /// Nodes below it, and open files.
    pins: u64,
    holds: Holds<Part>,
    /// References that layers have given.
    given: Vec<(Part, u64)>,
}

/// What a lookup found.
pub struct Seen {
    /// The number that it has unless another thing has that.
    pub number: Node,
    /// As [`Known::kind`].
    pub kind: FileKind,
    /// As [`Known::parts`], each with one reference of its layer's.
    pub parts: Parts,
    /// As [`Known::impure`].
    pub impure: bool,
}

/// References to be given back to layers, when no lock is held.
#[must_use]
#[derive(Default)]
pub struct Returned(pub Vec<(Part, u64)>);

/// All nodes of an overlay in this process.
pub struct Nodes {
    table: Mutex<Table>,
    keeper: Keeper,
}

#[derive(Default)]
struct Table {
    known: BTreeMap<Key, Known>,
    /// Which node has a part, the uppermost one, or that one below the upper one.
    parts: BTreeMap<(usize, usize, Node), Node>,
}

impl Nodes {
    /// A table with the `root`.
    pub fn new(root: Node, parts: Parts, keeper: Keeper) -> Self {
        let mut table = Table::default();
        for part in parts.all() {
            table.parts.insert((0, part.layer, part.node), root);
        }
        let known = Known {
            kind: FileKind::Directory,
            parts,
            place: None,
            checked: u64::MAX,
            gone: false,
            impure: false,
            pins_above: false,
            references: 1,
            pins: 0,
            holds: Holds::default(),
            given: Vec::new(),
        };
        table.known.insert((0, root), known);
        Self {
            table: Mutex::new(table),
            keeper,
        }
    }

    /// What `look` makes of what is known of `node`; `ESTALE` when nobody keeps it.
    pub fn with<T>(&self, node: Node, look: impl FnOnce(&mut Known) -> T) -> Result<T> {
        let mut table = self.table.lock();
        let key = table.key(self.keeper.table(), node);
        let known = table.known.get_mut(&key).ok_or(Errno::ESTALE)?;
        Ok(look(known))
    }

    /// The node that has `part`.
    pub fn part_of(&self, part: Part) -> Option<Node> {
        let table = self.table.lock();
        let of = self.keeper.table();
        let own = table.parts.get(&(of, part.layer, part.node));
        own.or_else(|| table.parts.get(&(0, part.layer, part.node)))
            .copied()
    }

    /// One more reference on the node that has `part` as its uppermost one, should it be known to
    /// this table of descriptors and be what `is` says.
    pub fn refer(&self, part: Part, is: impl FnOnce(&Known) -> bool) -> Option<Node> {
        let mut table = self.table.lock();
        let of = self.keeper.table();
        let node = *table.parts.get(&(of, part.layer, part.node))?;
        let known = table.known.get_mut(&(of, node))?;
        let top = known.parts.top().ok()?;
        if (top.layer, top.node) != (part.layer, part.node) || !is(known) {
            return None;
        }
        known.references += 1;
        Some(node)
    }

    /// One reference on what was `seen` in `place`, when `checked` changes were known; none: it has
    /// no name. Whoever has its number already, and is not it, keeps that.
    pub fn enter(
        &self,
        place: Option<(Node, &[u8])>,
        seen: Seen,
        checked: u64,
    ) -> Result<(Node, Returned)> {
        let mut table = self.table.lock();
        let table = &mut *table;
        let of = self.keeper.table();
        let mut number = seen.number;
        let top = seen.parts.top()?;
        for again in 0.. {
            match table.known.get(&(of, number)) {
                Some(known) if !known.may_be(&seen) => {
                    if again == 4 {
                        return Err(Errno::ESTALE.into());
                    }
                    number = Node(both(number.0, top.node.0 ^ top.layer as u64) | super::MADE);
                }
                _ => break,
            }
        }
        let key = (of, number);
        let known = table.known.entry(key).or_insert_with(|| Known {
            kind: seen.kind,
            parts: Parts::default(),
            place: None,
            checked,
            gone: false,
            impure: false,
            pins_above: false,
            references: 0,
            pins: 0,
            holds: Holds::default(),
            given: Vec::new(),
        });
        known.references += 1;
        known.checked = known.checked.max(checked);
        known.impure |= seen.impure;
        known.gone = false;
        for part in seen.parts.all() {
            known.give(*part, 1);
            table.parts.insert((of, part.layer, part.node), number);
        }
        known.parts = seen.parts;
        let returned = match place {
            Some((dir, name)) => table.put(key, dir, name),
            None => Vec::new(),
        };
        Ok((number, Returned(returned)))
    }

    /// `node` is `part` in the upper layer by now, with one reference of the layer's; `bytes`: and
    /// no lower file any more.
    pub fn raised(&self, node: Node, part: Part, bytes: bool) -> Result<()> {
        let mut table = self.table.lock();
        let table = &mut *table;
        let key = table.key(self.keeper.table(), node);
        let known = table.known.get_mut(&key).ok_or(Errno::ESTALE)?;
        known.give(part, 1);
        known.parts.upper = Some(part);
        if bytes && known.kind != FileKind::Directory {
            known.parts.lowers.clear();
        }
        table.parts.insert((key.0, part.layer, part.node), node);
        Ok(())
    }

    /// `node` is `name` in `dir` by now.
    pub fn renamed(&self, node: Node, (dir, name): (Node, &[u8])) -> Returned {
        let mut table = self.table.lock();
        let key = table.key(self.keeper.table(), node);
        if let Some(known) = table.known.get_mut(&key) {
            known.gone = false;
        }
        Returned(table.put(key, dir, name))
    }

    /// `node` has lost the name that it is known by, if it is this one.
    pub fn unnamed(&self, node: Node, place: (Node, &[u8])) {
        let _ = self.with(node, |known| {
            let at = known.place.as_ref().map(|(dir, name)| (*dir, &name[..]));
            known.gone |= at == Some(place);
        });
    }

    /// An open file keeps `node`; by what comes of it [`Self::unpin`] ends it, whoever calls that:
    /// what a child of vfork(2) has opened its parent drops.
    pub fn pin(&self, node: Node) -> Result<Key> {
        let mut table = self.table.lock();
        let key = table.key(self.keeper.table(), node);
        let known = table.known.get_mut(&key).ok_or(Errno::ESTALE)?;
        known.pins += 1;
        Ok(key)
    }

    /// It does no more.
    pub fn unpin(&self, key: Key) -> Returned {
        let returned = self.drop_count_at(key, |known| {
            known.pins = known.pins.saturating_sub(1);
        });
        match key.0 == self.keeper.table() {
            true => returned,
            // Layers count by who calls, and would take it from what is the caller's.
            false => Returned::default(),
        }
    }

    /// The front end drops `count` references.
    pub fn forget(&self, node: Node, count: u64) -> Returned {
        self.drop_count(node, |known| {
            known.references = known.references.saturating_sub(count);
        })
    }

    /// The front end holds `node`; what is to be held in layers when it is the first hold.
    pub fn hold(&self, node: Node) -> Result<Vec<Part>> {
        self.with(node, |known| {
            known.pins += 1;
            known.holds.begin(known.parts.all().copied())
        })
    }

    /// The end of a hold; what is to be released in layers when it was the last.
    pub fn release(&self, node: Node) -> (Vec<Part>, Returned) {
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
        match table.known.get_mut(&key) {
            Some(known) => count(known),
            None => return Returned::default(),
        }
        Returned(table.drop_unkept(key))
    }
}

impl Known {
    /// Whether what was `seen` may be this one: the same, or a copy of it.
    fn may_be(&self, seen: &Seen) -> bool {
        let same = |one: &Part, other: &Part| (one.layer, one.node) == (other.layer, other.node);
        self.kind == seen.kind
            && match (&self.parts.upper, &seen.parts.upper) {
                (Some(one), Some(other)) => same(one, other),
                (None, Some(_)) => true,
                (Some(_), None) => false,
                (None, None) => match (self.parts.lowers.first(), seen.parts.lowers.first()) {
                    (Some(one), Some(other)) => same(one, other),
                    _ => false,
                },
            }
    }

    fn give(&mut self, part: Part, count: u64) {
        let same = |one: &&mut (Part, u64)| (one.0.layer, one.0.node) == (part.layer, part.node);
        match self.given.iter_mut().find(same) {
            Some(there) => there.1 += count,
            None => self.given.push((part, count)),
        }
    }
}

impl Table {
    /// Where `node` stands for those with descriptor table `of`: their own, or the process's.
    fn key(&self, of: usize, node: Node) -> Key {
        match of != 0 && !self.known.contains_key(&(of, node)) {
            true => (0, node),
            false => (of, node),
        }
    }

    /// `key` is `name` in `dir`, which it keeps from here on, unless it is above it: then others
    /// have moved both, and what was seen is past.
    fn put(&mut self, key: Key, dir: Node, name: &[u8]) -> Vec<(Part, u64)> {
        let (of, node) = key;
        let same = |known: &Known| {
            let place = known.place.as_ref();
            place.is_some_and(|place| (place.0, &place.1[..]) == (dir, name))
        };
        if self.known.get(&key).is_none_or(same) {
            return Vec::new();
        }
        let mut above = Some(dir);
        while let Some(here) = above {
            let found = self.known.get(&self.key(of, here));
            if here == node || found.is_none() {
                return Vec::new();
            }
            above = found.and_then(|found| found.place.as_ref().map(|place| place.0));
        }
        let Some(known) = self.known.get_mut(&key) else {
            return Vec::new();
        };
        let before = known.place.replace((dir, name.into())).map(|place| place.0);
        let pinned = core::mem::replace(&mut known.pins_above, false);
        // What the parent of a child of vfork has is not the child's to count.
        let pins = self.known.get_mut(&(of, dir)).map(|known| known.pins += 1);
        if let Some(known) = self.known.get_mut(&key) {
            known.pins_above = pins.is_some();
        }
        let Some(before) = before.filter(|_| pinned) else {
            return Vec::new();
        };
        if let Some(known) = self.known.get_mut(&(of, before)) {
            known.pins = known.pins.saturating_sub(1);
        }
        self.drop_unkept((of, before))
    }

    /// Drops `key` if nobody keeps it, and so on upwards.
    fn drop_unkept(&mut self, key: Key) -> Vec<(Part, u64)> {
        let mut returned = Vec::new();
        let mut next = Some(key);
        while let Some(key) = next.take() {
            let keeps = |known: &Known| known.references > 0 || known.pins > 0;
            if self.known.get(&key).is_none_or(keeps) {
                break;
            }
            let Some(gone) = self.known.remove(&key) else {
                break;
            };
            for (part, count) in gone.given {
                let at = (key.0, part.layer, part.node);
                if self.parts.get(&at) == Some(&key.1) {
                    self.parts.remove(&at);
                }
                returned.push((part, count));
            }
            if let Some((above, _)) = gone.place.filter(|_| gone.pins_above)
                && let Some(known) = self.known.get_mut(&(key.0, above))
            {
                known.pins = known.pins.saturating_sub(1);
                next = Some((key.0, above));
            }
        }
        returned
    }
}
