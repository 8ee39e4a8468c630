//! What all clients of a server share, in the words that [`Channel::words`] gives them: what the
//! server does not have, what has changed, and which files are open in several processes.
//!
//! What is cached, by a client or by all, is believed while the word of its node or name is what it
//! was before the server was asked. Whoever has changed something adds to that word before the call
//! returns. So a process that knows of a change sees it, as in the kernel's one cache, and a hit
//! costs a load. Several nodes have the same word: too much is asked then, never too little.
//!
//! Another process of the same user may write here what it likes. It can close what is open, and
//! make others believe any names and attributes, and by pages any bytes of any file, also of those
//! that the server does not let it write. So all processes that use a server trust each other.

use crate::layout::{
    ACCOUNTS_AT, CHANGING_AT, CONTENTS, COUNTERS_AT, KNOWN, LINKS, NAMED, NAMES, NODES, OPENS_AT,
    PLACES, PLACES_AT, Records,
};
pub use crate::layout::{OPEN_WORDS, OPENS, WORDS};
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use culvert_slots::Channel;

const LACKS: usize = 0;
const FORKS: usize = 1;
const CHANGES: usize = 2;
/// Names and attributes that were found where all remember them.
pub const FOUND: usize = 4;
/// Those that the server was asked for.
pub const ASKED: usize = 5;
/// Records that were ever used.
pub const REMEMBERED: usize = 6;
/// Pages of files and listings that were found in the cache.
pub const PAGES_FOUND: usize = 7;
/// Those that the server was asked for.
pub const PAGES_ASKED: usize = 8;
/// Places of pages that were ever used.
pub const PAGES: usize = 9;

/// Records of which others have taken the place.
pub const EVICTED: usize = 10;
/// Pages of which others have.
pub const PAGES_EVICTED: usize = 11;

/// A change of a node's bytes or names, in what [`Shared::of_node`] counts: after it size, times
/// and the links of a directory may be others, but not who may do what (`FUSE_STATX_MODSIZE`,
/// fs/fuse/fuse_i.h). 1 is a read, after which only the time of access may be another. What goes
/// over into the next kind makes others ask once more.
pub const CHANGE: u64 = 1 << 16;

/// A change after which all of its attributes may be others.
pub const RIGHTS: u64 = 1 << 36;

/// Whether who may do what cannot have changed between these counts of a node.
pub const fn has_same_rights(then: u64, now: u64) -> bool {
    then / RIGHTS == now / RIGHTS
}

/// Whether nothing but the time of access may have changed between these counts of a node.
pub const fn is_read_only(then: u64, now: u64) -> bool {
    then / CHANGE == now / CHANGE
}

/// The words of [`Channel::words`], or one's own where there are not enough of them.
pub struct Words {
    own: Box<[AtomicU64]>,
    /// [`Shared::place`].
    place: AtomicU32,
    /// A place was asked for.
    settled: AtomicBool,
}

/// No place.
const NOWHERE: u32 = u32::MAX;

/// The words, as they are for one operation.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    pub words: &'a [AtomicU64],
    /// Others see them.
    pub is_shared: bool,
    /// This process's place among the holders of nodes.
    pub place: Option<u32>,
}

impl Words {
    /// What `channel` has.
    pub fn of(channel: &dyn Channel) -> Self {
        let missing = channel.words().len() < WORDS;
        let count = if missing { ACCOUNTS_AT } else { 0 };
        let words: Vec<_> = (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            own: words.into_boxed_slice(),
            place: AtomicU32::new(NOWHERE),
            settled: AtomicBool::new(false),
        }
    }

    /// The words.
    pub fn get<'a>(&'a self, channel: &'a dyn Channel) -> Shared<'a> {
        let place = Some(self.place.load(Relaxed)).filter(|&place| place != NOWHERE);
        match channel.words() {
            words if words.len() >= WORDS => Shared {
                words,
                is_shared: true,
                place,
            },
            _ => Shared {
                words: &self.own,
                is_shared: false,
                place: None,
            },
        }
    }

    /// This process has a place from here on, if there is one.
    pub fn settle(&self, channel: &dyn Channel) {
        if self.place.load(Relaxed) != NOWHERE || self.settled.swap(true, Relaxed) {
            return;
        }
        if let Some(place) = self.get(channel).take_place(channel.identity()) {
            self.place.store(place, Relaxed);
        }
    }

    /// This process is the child of a fork: its parent's place is not its own.
    pub fn forked(&self) {
        self.settled.store(false, Relaxed);
        self.place.store(NOWHERE, Relaxed);
    }

    /// Nothing is held any more.
    pub fn leave(&self, channel: &dyn Channel) {
        self.get(channel).leave_place(channel.identity());
        self.place.store(NOWHERE, Relaxed);
    }
}

/// A number that tells `name` in `dir` from others, mostly (FNV-1a).
fn mixed(dir: u64, name: &[u8]) -> usize {
    let start = dir.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xcbf2_9ce4_8422_2325;
    let hash = name.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    (hash ^ hash >> 29) as usize
}

impl<'a> Shared<'a> {
    /// Those in `words`, which others see.
    pub const fn of(words: &'a [AtomicU64]) -> Self {
        Self {
            words,
            is_shared: true,
            place: None,
        }
    }

    fn word(self, at: usize) -> Option<&'a AtomicU64> {
        self.words.get(at)
    }

    fn value(self, at: usize) -> u64 {
        self.word(at).map_or(0, |word| word.load(SeqCst))
    }

    /// Whether the server has answered ENOSYS to request `opcode`, and need not be asked again.
    pub fn lacks(self, opcode: u32) -> bool {
        let bit = 1_u64.checked_shl(opcode).unwrap_or(0);
        self.value(LACKS) & bit != 0
    }

    /// It has.
    pub fn has_not(self, opcode: u32) {
        if let (Some(word), Some(bit)) = (self.word(LACKS), 1_u64.checked_shl(opcode)) {
            word.fetch_or(bit, SeqCst);
        }
    }

    /// How often a process has forked that had the file system open.
    pub fn forks(self) -> u64 {
        self.value(FORKS)
    }

    /// One more.
    pub fn forked(self) {
        if let Some(word) = self.word(FORKS) {
            word.fetch_add(1, SeqCst);
        }
    }

    /// So many more; see [`FOUND`].
    pub fn count(self, which: usize, more: u64) {
        if let Some(word) = self.word(which) {
            word.fetch_add(more, Relaxed);
        }
    }

    /// The process that has place `place`.
    pub fn place_word(self, place: usize) -> Option<&'a AtomicU64> {
        self.word(PLACES_AT + place).filter(|_| place < PLACES)
    }

    /// How many changes the process of place `place` has under way; [`PLACES`]: those without one.
    pub fn changing_word(self, place: usize) -> Option<&'a AtomicU64> {
        self.word(CHANGING_AT + place)
            .filter(|_| place <= PLACES && self.is_shared)
    }

    /// Whether a process without a place has a change under way. It may have been killed, which
    /// nobody hears of: then this stays so, as the server may carry the change out at any time.
    pub fn is_changing_unseen(self) -> bool {
        let word = self.changing_word(PLACES);
        word.is_some_and(|word| word.load(SeqCst) != 0)
    }

    /// This process changes something, until it has counted that and drops what is returned: who is
    /// killed before has told nobody.
    pub fn changing(self) -> Changing<'a> {
        let place = self.place.map_or(PLACES, |place| place as usize);
        let word = self.changing_word(place);
        if let Some(word) = word {
            word.fetch_add(1, SeqCst);
        }
        Changing(word)
    }

    /// Records of names, attributes, and targets of links.
    pub const fn names(self) -> Records {
        NAMED
    }

    /// As said.
    pub const fn attributes(self) -> Records {
        KNOWN
    }

    /// As said.
    pub const fn links(self) -> Records {
        LINKS
    }

    fn node_word(self, node: u64) -> Counter<'a> {
        Counter(self.word(COUNTERS_AT + mixed(node, &[]) % NODES))
    }

    /// How often the attributes of `node` have changed, by [`CHANGE`]s, and how often it was read.
    pub fn of_node(self, node: u64) -> u64 {
        self.node_word(node).now()
    }

    /// They have; how often with this.
    pub fn node_changed(self, node: u64) -> u64 {
        Counter(self.word(CHANGES)).changed();
        self.node_word(node).more(RIGHTS)
    }

    /// Its bytes or names have changed ([`CHANGE`]); how often with this.
    pub fn node_modified(self, node: u64) -> u64 {
        Counter(self.word(CHANGES)).changed();
        self.node_word(node).more(CHANGE)
    }

    /// The server was asked for bytes of `node`: its time of access may have moved
    /// (`fuse_invalidate_atime`, fs/fuse/dir.c).
    pub fn node_read(self, node: u64) {
        Counter(self.word(CHANGES)).changed();
        self.node_word(node).changed();
    }

    /// How often the attributes of any node have changed.
    pub fn of_all(self) -> u64 {
        self.value(CHANGES)
    }

    /// What counts the changes of the bytes of `node`.
    pub fn content(self, node: u64) -> Counter<'a> {
        let at = COUNTERS_AT + NODES + NAMES;
        Counter(self.word(at + mixed(node, &[]) % CONTENTS))
    }

    /// What counts the changes of `name` in `dir`.
    pub fn name(self, dir: u64, name: &[u8]) -> Counter<'a> {
        Counter(self.word(COUNTERS_AT + NODES + mixed(dir, name) % NAMES))
    }

    /// Open file number `index` of those in several processes.
    pub fn open(self, index: usize) -> Option<&'a [AtomicU64; OPEN_WORDS]> {
        let start = OPENS_AT + index.checked_mul(OPEN_WORDS)?;
        let words = self.words.get(start..start + OPEN_WORDS);
        words.filter(|_| index < OPENS)?.as_array()
    }
}

/// A process is gone whose change the server may carry out later, which nobody waits for: pages are
/// not believed any more.
pub fn disbelieve_pages(words: &[AtomicU64]) {
    if let Some(word) = Shared::of(words).changing_word(PLACES) {
        word.fetch_add(1, SeqCst);
    }
}

/// What was counted of a server's clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Names, attributes and links that a process has found where all remember them.
    pub found: u64,
    /// Those that the server was asked for.
    pub asked: u64,
    /// Records that are in use.
    pub remembered: u64,
    /// Processes that hold nodes.
    pub processes: u64,
    /// Pages of files and listings that were found in the cache.
    pub pages_found: u64,
    /// Those that the server was asked for.
    pub pages_asked: u64,
    /// Those that are in the cache, or were.
    pub pages: u64,
    /// Records and pages of which others have taken the place.
    pub evicted: u64,
    /// As said.
    pub pages_evicted: u64,
}

impl Counts {
    /// Those in `words`.
    #[must_use]
    pub fn of(words: &[AtomicU64]) -> Self {
        let words = Shared::of(words);
        let places = (0..PLACES).filter_map(|place| words.place_word(place));
        Self {
            found: words.value(FOUND),
            asked: words.value(ASKED),
            remembered: words.value(REMEMBERED),
            processes: places.filter(|word| word.load(Relaxed) != 0).count() as u64,
            pages_found: words.value(PAGES_FOUND),
            pages_asked: words.value(PAGES_ASKED),
            pages: words.value(PAGES),
            evicted: words.value(EVICTED),
            pages_evicted: words.value(PAGES_EVICTED),
        }
    }
}

/// A change that is under way.
pub struct Changing<'a>(Option<&'a AtomicU64>);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Some(word) = self.0 {
            word.fetch_sub(1, SeqCst);
        }
    }
}

/// Counts changes.
#[derive(Clone, Copy)]
pub struct Counter<'a>(Option<&'a AtomicU64>);

impl Counter<'_> {
    /// How many there were.
    pub fn now(self) -> u64 {
        self.0.map_or(0, |word| word.load(SeqCst))
    }

    /// One more; how many there are with it.
    pub fn changed(self) -> u64 {
        self.more(1)
    }

    fn more(self, count: u64) -> u64 {
        let add = |word: &AtomicU64| word.fetch_add(count, SeqCst).wrapping_add(count);
        self.0.map_or(0, add)
    }
}
