//! What all clients of a server share, in the words that [`Channel::words`] gives them: what the
//! server does not have, what has changed, and which files are open in several processes.
//!
//! What a client caches is its own; it is believed while the word of its node or name is what it
//! was before the server was asked. Whoever has changed something adds to that word before the call
//! returns. So a process that knows of a change sees it, as in the kernel's one cache, and a hit
//! costs a load. Several nodes have the same word: too much is asked then, never too little.
//!
//! Another process of the same user may write here what it likes: it makes others believe what has
//! changed for as long as the server allows at most, or close what is open. It could do both by
//! requests of its own.

use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::*};
use culvert_slots::Channel;

/// How many words a client wants: 64 KiB hold them.
pub const WORDS: usize = 8 + NODES + NAMES + CONTENTS + OPENS * OPEN_WORDS;
const _: () = assert!(WORDS <= 8192);
const NODES: usize = 1024;
const NAMES: usize = 4096;
const CONTENTS: usize = 512;
/// Files that are open in several processes at once; what is more is not closed before the end.
pub const OPENS: usize = 600;
/// State, handle, node, place.
const OPEN_WORDS: usize = 4;

const LACKS: usize = 0;
const FORKS: usize = 1;
const CHANGES: usize = 2;

/// The words of [`Channel::words`], or one's own where there are not enough of them.
pub struct Words {
    own: Box<[AtomicU64]>,
}

/// The words, as they are for one operation.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    words: &'a [AtomicU64],
    /// Others see them.
    pub is_shared: bool,
}

impl Words {
    /// What `channel` has.
    pub fn of(channel: &dyn Channel) -> Self {
        let missing = channel.words().len() < WORDS;
        let count = if missing { WORDS } else { 0 };
        let words: Vec<_> = (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            own: words.into_boxed_slice(),
        }
    }

    /// The words.
    pub fn get<'a>(&'a self, channel: &'a dyn Channel) -> Shared<'a> {
        match channel.words() {
            words if words.len() >= WORDS => Shared {
                words,
                is_shared: true,
            },
            _ => Shared {
                words: &self.own,
                is_shared: false,
            },
        }
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

    fn node_word(self, node: u64) -> Counter<'a> {
        Counter(self.word(8 + mixed(node, &[]) % NODES))
    }

    /// How often the attributes of `node` have changed.
    pub fn of_node(self, node: u64) -> u64 {
        self.node_word(node).now()
    }

    /// They have; how often with this.
    pub fn node_changed(self, node: u64) -> u64 {
        Counter(self.word(CHANGES)).changed();
        self.node_word(node).changed()
    }

    /// How often the attributes of any node have changed.
    pub fn of_all(self) -> u64 {
        self.value(CHANGES)
    }

    /// What counts the changes of the bytes of `node`.
    pub fn content(self, node: u64) -> Counter<'a> {
        Counter(self.word(8 + NODES + NAMES + mixed(node, &[]) % CONTENTS))
    }

    /// What counts the changes of `name` in `dir`.
    pub fn name(self, dir: u64, name: &[u8]) -> Counter<'a> {
        Counter(self.word(8 + NODES + mixed(dir, name) % NAMES))
    }

    /// Open file number `index` of those in several processes.
    pub fn open(self, index: usize) -> Option<&'a [AtomicU64]> {
        let start = 8 + NODES + NAMES + CONTENTS + index.checked_mul(OPEN_WORDS)?;
        (index < OPENS)
            .then(|| self.words.get(start..start + OPEN_WORDS))
            .flatten()
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
        self.0.map_or(0, |word| word.fetch_add(1, SeqCst) + 1)
    }
}
