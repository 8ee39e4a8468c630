//! The tables of the ready parts, which their program reads while the server writes
//! (extensions/ready/tables.h, ready.bpf.c).
//!
//! A record counts its changes: odd means that nothing is there. The program takes what it has read
//! only if the count is the same afterwards, so writers need no lock against it; against each other
//! they have one ([`crate::Extension`]'s). x86-64 keeps stores in order, and loads.

use culvert_sys::memory::Mapping;
use culvert_wire::{Plain, structures::Attr};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// For ever.
pub const EVER: u64 = u64::MAX;
/// Longer names are not kept, bytes.
pub const NAME: usize = 63;
/// Longer values of extended attributes are not kept, bytes.
pub const VALUE: usize = 128;
/// Instead of a value's length: there is none of this name.
const ABSENT: u64 = u64::MAX;
/// So many users may be named whose requests are logged.
pub const USERS: usize = 16;
/// 64-bit words of [`Attr`].
const ATTR: usize = size_of::<Attr>() / 8;

#[repr(C)]
pub struct Settings {
    epoch: AtomicU64,
    names_mask: AtomicU64,
    nodes_mask: AtomicU64,
    xattrs_mask: AtomicU64,
    xattr_epoch: AtomicU64,
    parts: AtomicU64,
    users: AtomicU64,
    user: [AtomicU32; USERS],
    dropped: AtomicU64,
}

#[repr(C)]
pub struct NameRecord {
    version: AtomicU64,
    parent: AtomicU64,
    node: AtomicU64,
    until: AtomicU64,
    parent_gone: AtomicU64,
    node_gone: AtomicU64,
    words: [AtomicU64; 8],
}

#[repr(C)]
pub struct NodeRecord {
    state: AtomicU64,
    node: AtomicU64,
    until: AtomicU64,
    epoch: AtomicU64,
    gone: AtomicU64,
    xattrs: AtomicU64,
    absent: AtomicU64,
    attr: [AtomicU64; ATTR],
}

#[repr(C)]
pub struct XattrRecord {
    version: AtomicU64,
    node: AtomicU64,
    until: AtomicU64,
    gone: AtomicU64,
    changes: AtomicU64,
    epoch: AtomicU64,
    name: [AtomicU64; 8],
    length: AtomicU64,
    value: [AtomicU64; VALUE / 8],
    _padding: u64,
}

/// The generation of a node's record, in the upper half of its state; the lower half counts.
const GENERATION: u64 = 1 << 32;

/// As the program does it.
pub const fn mixed(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ hash >> 32
}

/// Of a name of the directory or file `node`.
fn hash(node: u64, words: &[u64; 8]) -> usize {
    let first = mixed(0, node);
    words.iter().fold(first, |hash, word| mixed(hash, *word)) as usize
}

fn is_same(there: &[AtomicU64; 8], words: &[u64; 8]) -> bool {
    let mut both = there.iter().zip(words);
    both.all(|(there, word)| there.load(Relaxed) == *word)
}

/// A name as its words, filled up with 0; none: it is too long.
pub fn words(name: &[u8]) -> Option<[u64; 8]> {
    let mut bytes = [0; 64];
    bytes
        .get_mut(..name.len())
        .filter(|_| name.len() <= NAME)?
        .copy_from_slice(name);
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().ok()?);
    }
    Some(words)
}

/// All tables. One writes at a time.
#[derive(Debug)]
pub struct Tables {
    settings: Mapping,
    names: Mapping,
    nodes: Mapping,
    xattrs: Mapping,
    counts: [usize; 3],
}

impl Tables {
    /// Bytes of a record of each table.
    pub const SIZES: [usize; 4] = [
        size_of::<Settings>(),
        size_of::<NameRecord>(),
        size_of::<NodeRecord>(),
        size_of::<XattrRecord>(),
    ];

    /// Tables of so many (`counts`, powers of two) names, nodes and extended attributes, in
    /// mappings of zeroes that are large enough. The program does nothing before [`Tables::begin`].
    pub fn new([settings, names, nodes, xattrs]: [Mapping; 4], counts: [usize; 3]) -> Self {
        let lengths = [&names, &nodes, &xattrs].map(Mapping::len);
        let fit =
            |n: usize| counts[n].is_power_of_two() && lengths[n] >= counts[n] * Self::SIZES[n + 1];
        assert!(settings.len() >= Self::SIZES[0] && (0..3).all(fit));
        let tables = Self {
            settings,
            names,
            nodes,
            xattrs,
            counts,
        };
        for index in 0..counts[0] {
            tables.name_at(index).version.store(1, Relaxed);
        }
        for index in 0..counts[1] {
            tables.node_at(index).state.store(GENERATION, Relaxed);
        }
        for index in 0..counts[2] {
            tables.xattr_at(index).version.store(1, Relaxed);
        }
        let settings = tables.settings();
        let masks = [
            &settings.names_mask,
            &settings.nodes_mask,
            &settings.xattrs_mask,
        ];
        for (mask, count) in masks.into_iter().zip(counts) {
            mask.store(count as u64 - 1, SeqCst);
        }
        tables
    }

    /// The program does what the bits `parts` say from here on.
    pub fn begin(&self, parts: u64) {
        self.settings().parts.store(parts, SeqCst);
    }

    /// Requests of these users alone are logged, of the first [`USERS`]; none: of all.
    pub fn log_users(&self, users: &[u32]) {
        let settings = self.settings();
        // The places that are left have a user, too.
        for (there, user) in settings.user.iter().zip(users.iter().cycle()) {
            there.store(*user, Relaxed);
        }
        settings.users.store(users.len().min(USERS) as u64, SeqCst);
    }

    /// How many records the log has had no room for.
    pub fn dropped(&self) -> u64 {
        self.settings().dropped.load(Relaxed)
    }

    fn settings(&self) -> &Settings {
        // SAFETY: the mapping is as long, lives as long as the tables, is aligned to a page, and
        // holds integers that others change by atomic operations alone.
        unsafe { &*(self.settings.address() as *const Settings) }
    }

    fn name_at(&self, index: usize) -> &NameRecord {
        let index = index & (self.counts[0] - 1);
        // SAFETY: as above; the mapping has as many records, of a size that keeps them aligned.
        unsafe { &*(self.names.address() as *const NameRecord).add(index) }
    }

    fn node_at(&self, index: usize) -> &NodeRecord {
        let index = index & (self.counts[1] - 1);
        // SAFETY: as above.
        unsafe { &*(self.nodes.address() as *const NodeRecord).add(index) }
    }

    fn xattr_at(&self, index: usize) -> &XattrRecord {
        let index = index & (self.counts[2] - 1);
        // SAFETY: as above.
        unsafe { &*(self.xattrs.address() as *const XattrRecord).add(index) }
    }

    fn name(&self, parent: u64, words: &[u64; 8]) -> &NameRecord {
        self.name_at(hash(parent, words))
    }

    fn node(&self, node: u64) -> &NodeRecord {
        self.node_at(mixed(0, node) as usize)
    }

    /// Attributes of all nodes are stale.
    pub fn new_epoch(&self) {
        self.settings().epoch.fetch_add(1, SeqCst);
    }

    /// Which node the name leads to, 0: none; none: it is not known.
    pub fn named(&self, parent: u64, words: &[u64; 8]) -> Option<u64> {
        let record = self.name(parent, words);
        let same = record.version.load(Acquire) & 1 == 0
            && record.parent.load(Relaxed) == parent
            && is_same(&record.words, words);
        let node = record.node.load(Relaxed);
        let lives = same
            && self.gone(parent) == record.parent_gone.load(Relaxed)
            && (node == 0 || self.gone(node) == record.node_gone.load(Relaxed));
        lives.then_some(node)
    }

    /// Whether a name may come here that nobody is to believe: the place holds no other one that
    /// is believed.
    pub fn has_room(&self, parent: u64, words: &[u64; 8], now: u64) -> bool {
        let record = self.name(parent, words);
        record.version.load(Acquire) & 1 == 1
            || record.until.load(Relaxed) <= now
            || self.named(parent, words).is_some()
    }

    fn gone(&self, node: u64) -> u64 {
        self.node(node).gone.load(SeqCst)
    }

    /// The driver lets go of `node`: its number may be given to another file, and nobody watches it
    /// as a directory. Names that lead to it or lie in it are not known any more, nor those of the
    /// few nodes that share its place.
    pub fn let_go(&self, node: u64) {
        self.node(node).gone.fetch_add(1, SeqCst);
    }

    /// The name is not known any more.
    pub fn drop_name(&self, parent: u64, words: &[u64; 8]) {
        if self.named(parent, words).is_some() {
            self.name(parent, words).version.fetch_add(1, SeqCst);
        }
    }

    /// No name is known any more.
    pub fn drop_names(&self) {
        for index in 0..self.counts[0] {
            let version = &self.name_at(index).version;
            if version.load(Relaxed) & 1 == 0 {
                version.fetch_add(1, SeqCst);
            }
        }
    }

    /// The name leads to `node`, 0: nowhere, until then; 0: nobody is to believe it.
    pub fn put_name(&self, parent: u64, words: &[u64; 8], node: u64, until: u64) {
        let record = self.name(parent, words);
        let version = record.version.load(Relaxed) | 1;
        record.version.store(version, SeqCst);
        record.parent.store(parent, Relaxed);
        record.node.store(node, Relaxed);
        record.until.store(until, Relaxed);
        record.parent_gone.store(self.gone(parent), Relaxed);
        record.node_gone.store(self.gone(node), Relaxed);
        for (there, word) in record.words.iter().zip(words) {
            there.store(*word, Relaxed);
        }
        record.version.store(version + 1, Release);
    }

    /// Whether attributes of `node` are there, stale or not.
    pub fn has_node(&self, node: u64) -> bool {
        let record = self.node(node);
        record.state.load(Acquire) & GENERATION == 0 && record.node.load(Relaxed) == node
    }

    /// Whether attributes of `node` are there and hold.
    pub fn is_fresh(&self, node: u64, now: u64) -> bool {
        let record = self.node(node);
        self.has_node(node)
            && record.epoch.load(Relaxed) == self.settings().epoch.load(SeqCst)
            && record.until.load(Relaxed) > now
    }

    /// Empties the place of `node`: whose it was, and how often the program has given that one to
    /// the kernel since it was asked last.
    pub fn take_node(&self, node: u64) -> Option<(u64, u64)> {
        let record = self.node(node);
        let mut state = record.state.load(Acquire);
        loop {
            if state & GENERATION != 0 {
                return None;
            }
            let empty = (state | (GENERATION - 1)).wrapping_add(1);
            match record.state.compare_exchange(state, empty, SeqCst, SeqCst) {
                Ok(_) => {
                    return Some((record.node.load(Relaxed), state & (GENERATION - 1)));
                }
                Err(now) => state = now,
            }
        }
    }

    /// How often the program has given `node` to the kernel since it was asked last.
    pub fn take_count(&self, node: u64) -> u64 {
        let record = self.node(node);
        let mut state = record.state.load(Acquire);
        loop {
            if state & GENERATION != 0 || record.node.load(Relaxed) != node {
                return 0;
            }
            let none = state & !(GENERATION - 1);
            match record.state.compare_exchange(state, none, SeqCst, SeqCst) {
                Ok(_) => return state & (GENERATION - 1),
                Err(now) => state = now,
            }
        }
    }

    /// Fills the place of `node`, which is empty ([`Tables::take_node`]).
    pub fn put_node(&self, node: u64, until: u64, attr: &Attr) {
        let record = self.node(node);
        let state = record.state.load(Acquire);
        debug_assert!(state & GENERATION != 0);
        record.node.store(node, Relaxed);
        record.until.store(until, Relaxed);
        record
            .epoch
            .store(self.settings().epoch.load(SeqCst), Relaxed);
        record.absent.store(0, Relaxed);
        for (there, bytes) in record.attr.iter().zip(attr.bytes().chunks_exact(8)) {
            there.store(
                u64::from_ne_bytes(bytes.try_into().unwrap_or_default()),
                Relaxed,
            );
        }
        record.state.store(state.wrapping_add(GENERATION), Release);
    }

    /// `node` has not the xattr number `which`, as long as its attributes are known.
    pub fn put_absent(&self, node: u64, which: u32) {
        let record = self.node(node);
        let fresh = record.epoch.load(Relaxed) == self.settings().epoch.load(SeqCst);
        if self.has_node(node) && fresh {
            record.absent.fetch_or(1 << which, SeqCst);
        }
    }

    /// The extended attributes of `node` are not known any more, nor those of the few nodes that
    /// share its place.
    pub fn xattrs_changed(&self, node: u64) {
        self.node(node).xattrs.fetch_add(1, SeqCst);
    }

    /// No extended attributes are known any more.
    pub fn drop_xattrs(&self) {
        self.settings().xattr_epoch.fetch_add(1, SeqCst);
    }

    /// The extended attribute `name` of `node`, or where the name is empty the list of their names,
    /// until then; no value: there is none. A value is [`VALUE`] bytes long at most.
    pub fn put_xattr(&self, node: u64, name: &[u64; 8], value: Option<&[u8]>, until: u64) {
        let record = self.xattr_at(hash(node, name));
        let version = record.version.load(Relaxed) | 1;
        record.version.store(version, SeqCst);
        record.node.store(node, Relaxed);
        record.until.store(until, Relaxed);
        record.gone.store(self.gone(node), Relaxed);
        let changes = self.node(node).xattrs.load(SeqCst);
        record.changes.store(changes, Relaxed);
        let epoch = self.settings().xattr_epoch.load(SeqCst);
        record.epoch.store(epoch, Relaxed);
        for (there, word) in record.name.iter().zip(name) {
            there.store(*word, Relaxed);
        }
        let length = value.map_or(ABSENT, |value| value.len() as u64);
        record.length.store(length, Relaxed);
        let mut bytes = [0; VALUE];
        if let Some(value) = value {
            bytes[..value.len()].copy_from_slice(value);
        }
        for (there, bytes) in record.value.iter().zip(bytes.chunks_exact(8)) {
            let word = u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            there.store(word, Relaxed);
        }
        record.version.store(version + 1, Release);
    }

    #[cfg(test)]
    /// What the program does for GETXATTR and LISTXATTR; none: it asks the server.
    pub fn xattr(&self, node: u64, name: &[u8], now: u64) -> Option<Option<Vec<u8>>> {
        let words = words(name)?;
        let record = self.xattr_at(hash(node, &words));
        let known = record.version.load(Acquire) & 1 == 0
            && record.node.load(Relaxed) == node
            && is_same(&record.name, &words)
            && record.until.load(Relaxed) > now
            && record.gone.load(Relaxed) == self.gone(node)
            && record.changes.load(Relaxed) == self.node(node).xattrs.load(SeqCst)
            && record.epoch.load(Relaxed) == self.settings().xattr_epoch.load(SeqCst);
        if !known {
            return None;
        }
        let bytes = record.value.iter();
        let bytes = bytes.flat_map(|word| word.load(Relaxed).to_ne_bytes());
        match record.length.load(Relaxed) {
            ABSENT => Some(None),
            length => Some(Some(bytes.take(length as usize).collect())),
        }
    }

    #[cfg(test)]
    /// What the program does for LOOKUP: the node that it answers, 0: there is none.
    pub fn looked_up(&self, parent: u64, name: &[u8], now: u64) -> Option<u64> {
        let words = words(name)?;
        let node = self.named(parent, &words)?;
        if self.name(parent, &words).until.load(Relaxed) <= now {
            return None;
        }
        if node == 0 {
            return Some(0);
        }
        self.attributes(node, now)?;
        self.node(node).state.fetch_add(1, SeqCst);
        Some(node)
    }

    #[cfg(test)]
    /// What the program does for GETATTR: the size that it answers.
    pub fn attributes(&self, node: u64, now: u64) -> Option<u64> {
        let record = self.node(node);
        self.is_fresh(node, now)
            .then(|| record.attr[1].load(Relaxed))
    }

    #[cfg(test)]
    /// What the program does for GETXATTR.
    pub fn is_absent(&self, node: u64, which: u32) -> bool {
        self.attributes(node, 0).is_some() && self.node(node).absent.load(Relaxed) >> which & 1 == 1
    }
}
