//! Files that are open at the server, and in which process: a process that is killed closes
//! nothing.
//!
//! An entry is made when the server has answered OPEN, and taken away when RELEASE is posted, from
//! where on the slot says it. So of a process that is gone it is known what is still to be
//! released: what has an entry, and no RELEASE in a slot of the process.

use crate::channel::OpenFile;
use crate::identity::Identity;
use crate::steps::{Step, at};
use core::sync::atomic::{AtomicU64, Ordering::*};

/// How many files are written down; what is more stays open at the server when its process is
/// killed.
pub(crate) const OPENS: usize = 2048;
/// How many places an entry may have: so many are looked at for one.
const PLACES: usize = 16;

/// An entry: nobody's where its owner is 0, whole where `what` is not 0.
#[repr(C, align(32))]
pub(crate) struct Entry {
    pub owner: AtomicU64,
    node: AtomicU64,
    handle: AtomicU64,
    what: AtomicU64,
}

const THERE: u64 = 1 << 32;
const DIRECTORY: u64 = 1 << 33;

impl Entry {
    pub fn read(&self) -> Option<OpenFile> {
        let what = self.what.load(Acquire);
        (what & THERE != 0).then(|| OpenFile {
            node: self.node.load(Relaxed),
            handle: self.handle.load(Relaxed),
            flags: what as u32,
            is_directory: what & DIRECTORY != 0,
        })
    }

    pub fn clear(&self, owner: Identity) {
        self.what.store(0, Release);
        at(Step::Clearing);
        let _ = self
            .owner
            .compare_exchange(owner.0, Identity::NOBODY.0, SeqCst, Relaxed);
    }
}

fn places(node: u64, handle: u64) -> impl Iterator<Item = usize> {
    let mixed = (node ^ handle.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = (mixed >> 40) as usize;
    (0..PLACES).map(move |step| (first + step) % OPENS)
}

/// All entries.
pub(crate) type Entries = [Entry; OPENS];

/// `file` is open in process `own`.
pub(crate) fn note_open(opens: &Entries, own: Identity, file: &OpenFile) {
    let claims = |at: &usize| {
        let owner = &opens[*at].owner;
        let claimed = owner.compare_exchange(0, own.0, SeqCst, Relaxed);
        claimed.is_ok()
    };
    if let Some(place) = places(file.node, file.handle).find(claims) {
        let entry = &opens[place];
        at(Step::Noting);
        entry.node.store(file.node, Relaxed);
        entry.handle.store(file.handle, Relaxed);
        let kind = if file.is_directory { DIRECTORY } else { 0 };
        let what = THERE | kind | u64::from(file.flags);
        entry.what.store(what, Release);
        at(Step::Noted);
    }
}

/// Whether `file` is known to be open in process `own`.
pub(crate) fn has_noted(opens: &Entries, own: Identity, file: &OpenFile) -> bool {
    find(opens, own, file.node, file.handle).is_some()
}

/// File `handle` of `node` is not any more.
pub(crate) fn note_closed(opens: &Entries, own: Identity, node: u64, handle: u64) {
    if let Some(entry) = find(opens, own, node, handle) {
        entry.clear(own);
    }
}

fn find(opens: &Entries, own: Identity, node: u64, handle: u64) -> Option<&Entry> {
    let is_it = |entry: &&Entry| {
        let found = entry.read();
        entry.owner.load(Relaxed) == own.0
            && found.is_some_and(|file| file.node == node && file.handle == handle)
    };
    places(node, handle).map(|at| &opens[at]).find(is_it)
}
