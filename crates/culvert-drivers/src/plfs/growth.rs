//! What the processes of a run tell each other of their droppings: how often each has grown, and
//! how often it had when somebody brought it to the disk. So of many that sync a file at once each
//! brings its own there, and finds that the others have done theirs.
//!
//! A writer has an entry while it lives, if there is one free; what has none is looked at. What an
//! entry says of being synced holds its key, so that what is said late, of an entry that has become
//! another writer's, says nothing.

use super::layout;
use super::shared::{OF_DROPPINGS, Shared};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

const ENTRIES: usize = OF_DROPPINGS / ENTRY;
/// Words of an entry: its key, how often the dropping has grown, and what was synced.
const ENTRY: usize = 3;
/// Entries in which a key may be.
const PLACES: usize = 16;
/// Keys of no dropping.
const FREE: u64 = 0;
const TAKEN: u64 = 1;

/// An entry.
pub struct Growth<'a> {
    key: u64,
    words: [&'a AtomicU64; ENTRY],
}

/// The key of the index dropping `name` in the container `inode`: names have times, and are not
/// used again.
fn key(inode: u64, name: &[u8]) -> u64 {
    (layout::hash(name) ^ inode.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 2
}

impl Shared {
    fn entry(&self, key: u64, at: usize) -> Option<Growth<'_>> {
        let first = ((key >> 32) as usize + at) % ENTRIES * ENTRY;
        let word = |at| self.growth_word(first + at);
        Some(Growth {
            key,
            words: [word(0)?, word(1)?, word(2)?],
        })
    }

    fn entries(&self, key: u64) -> impl Iterator<Item = Growth<'_>> {
        (0..PLACES).filter_map(move |at| self.entry(key, at))
    }

    /// The entry of the index dropping `name` in the container `inode`.
    pub fn growth(&self, inode: u64, name: &[u8]) -> Option<Growth<'_>> {
        let key = key(inode, name);
        self.entries(key).find(Growth::is_ours)
    }

    /// Makes one, for its writer.
    pub fn begin_growth(&self, inode: u64, name: &[u8]) {
        let key = key(inode, name);
        let mut entries = self.entries(key);
        if let Some(growth) = entries.find(Growth::take) {
            growth.words[1].store(0, SeqCst);
            growth.words[2].store(0, SeqCst);
            growth.words[0].store(key, SeqCst);
        }
    }
}

impl Growth<'_> {
    fn is_ours(&self) -> bool {
        self.words[0].load(SeqCst) == self.key
    }

    fn take(&self) -> bool {
        let taken = self.words[0].compare_exchange(FREE, TAKEN, SeqCst, SeqCst);
        taken.is_ok()
    }

    /// How often it has grown.
    pub fn count(&self) -> u64 {
        self.words[1].load(SeqCst)
    }

    /// For its writer: records have come, or all are gone.
    pub fn grown(&self) {
        self.words[1].fetch_add(1, SeqCst);
    }

    /// For its writer, which writes no more.
    pub fn end(&self) {
        if self.is_ours() {
            self.words[0].store(FREE, SeqCst);
        }
    }

    /// What says that it was synced when it had grown `count` times, and the file was cut `cuts`
    /// times.
    fn token(&self, count: u64, cuts: u64) -> u64 {
        let count = count.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let cuts = cuts.wrapping_mul(0x1656_67b1_9e37_79f9);
        self.key.wrapping_add(count).wrapping_add(cuts).max(1)
    }

    /// Whether it was synced since it grew the last time, in a file that was cut `cuts` times.
    pub fn is_synced(&self, cuts: u64) -> bool {
        self.words[2].load(SeqCst) == self.token(self.count(), cuts) && self.is_ours()
    }

    /// It was synced after it had grown `count` times.
    pub fn synced(&self, count: u64, cuts: u64) {
        self.words[2].store(self.token(count, cuts), SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn what_grows_or_is_cut_is_not_synced() {
        let shared = Shared::open(None);
        assert!(shared.growth(1, b"a").is_none());
        shared.begin_growth(1, b"a");
        shared.begin_growth(1, b"b");
        let growth = shared.growth(1, b"a").unwrap();
        assert!(!growth.is_synced(0));
        growth.grown();
        let before = growth.count();
        growth.grown();
        growth.synced(before, 0);
        assert!(!growth.is_synced(0), "it has grown meanwhile");
        growth.synced(growth.count(), 0);
        assert!(growth.is_synced(0) && !growth.is_synced(1));
        assert!(!shared.growth(1, b"b").unwrap().is_synced(0));
        assert!(shared.growth(2, b"a").is_none());
    }

    #[test]
    fn what_is_said_late_says_nothing_of_the_next_writer() {
        let shared = Shared::open(None);
        shared.begin_growth(1, b"a");
        let late = shared.growth(1, b"a").unwrap();
        late.end();
        let next = Growth {
            key: late.key + 4,
            words: late.words,
        };
        assert!(next.take());
        next.words[0].store(next.key, SeqCst);
        late.synced(0, 0);
        assert!(!next.is_synced(0) && !late.is_synced(0));
        assert!(shared.growth(1, b"a").is_none());
        late.end();
        assert!(next.is_ours());
    }

    #[test]
    fn who_finds_no_place_has_none() {
        let shared = Shared::open(None);
        for at in 0..2 * ENTRIES {
            shared.begin_growth(1, format!("{at}").as_bytes());
        }
        let has = |at: &usize| shared.growth(1, format!("{at}").as_bytes()).is_some();
        let count = (0..2 * ENTRIES).filter(has).count();
        assert!(count > ENTRIES / 2 && count <= ENTRIES, "{count}");
    }
}
