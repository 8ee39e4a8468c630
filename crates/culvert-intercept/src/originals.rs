//! Mappings that stand for others: the program mapped a file, and another file with the same bytes
//! and rewritten code is mapped in its place. What tells programs of their own mappings
//! (/proc/self/maps) names the file that they mapped.

use alloc::boxed::Box;
use alloc::vec::Vec;
use culvert_sys::sync::AtomicRef;

/// A range of addresses where another file is mapped than the program asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Original {
    /// The first address.
    pub start: u64,
    /// The address behind the last.
    pub end: u64,
    /// The inode of the file that is mapped there: where another one is, the program has mapped
    /// something else since, and nothing stands for anything.
    pub mapped_inode: u64,
    /// The place in the original file at `start`, bytes.
    pub offset: u64,
    /// The original file's device, as `st_dev` has it.
    pub device: u64,
    /// The original file's inode.
    pub inode: u64,
    /// The original file's absolute path.
    pub path: Vec<u8>,
}

struct Entry {
    original: Original,
    next: AtomicRef<Entry>,
}

/// It grows only, so that a signal's handler may walk it.
static FIRST: AtomicRef<Entry> = AtomicRef::new();

/// All of this process, the newest first: of several of one place the first counts.
pub fn originals() -> impl Iterator<Item = &'static Original> {
    core::iter::successors(FIRST.get(), |entry| entry.next.get()).map(|entry| &entry.original)
}

/// Whether there is any.
pub fn are_any() -> bool {
    FIRST.is_some()
}

/// Records `original`. What is there already (a library that comes and goes at one place) takes no
/// memory again.
pub fn add(original: Original) {
    let start = original.start;
    if originals().find(|known| known.start == start) == Some(&original) {
        return;
    }
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        original,
        next: AtomicRef::new(),
    }));
    FIRST.push(entry, &entry.next);
}
