//! What has been patched: a list that grows only, so that signal handlers may walk it.

use crate::SiteRecord;
use crate::stub::Edit;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::*};
use culvert_sys::sync::AtomicRef;

/// A patched mapping.
struct Entry {
    /// The code.
    code: (u64, u64),
    /// The stubs.
    stubs: (u64, u64),
    /// Their records.
    records: (usize, usize),
    /// What was changed, by address.
    edits: &'static [Edit],
    /// `ud2` sites: address, and index of the record.
    traps: Box<[(usize, usize)]>,
    /// Set when something else was mapped there.
    gone: AtomicBool,
    next: AtomicRef<Entry>,
}

impl Entry {
    fn records(&self) -> &'static [SiteRecord] {
        let (at, count) = self.records;
        // SAFETY: written before the entry was added, in memory that is never unmapped nor changed
        // again.
        unsafe { core::slice::from_raw_parts(at as *const SiteRecord, count) }
    }
}

static FIRST: AtomicRef<Entry> = AtomicRef::new();

fn entries() -> impl Iterator<Item = &'static Entry> {
    core::iter::successors(FIRST.get(), |entry| entry.next.get())
}

/// Records that `edits`, which are returned, are made in `start..end`, leading to `size` bytes of
/// stubs at `stubs`, with `count` records at `records`.
pub(crate) fn add(
    (start, end): (u64, u64),
    (stubs, size): (u64, u64),
    (records, count): (usize, usize),
    edits: Vec<Edit>,
    traps: Vec<(usize, usize)>,
) -> &'static [Edit] {
    let edits: &'static [Edit] = Box::leak(edits.into());
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        code: (start, end),
        stubs: (stubs, stubs + size),
        records: (records, count),
        edits,
        traps: traps.into(),
        gone: AtomicBool::new(false),
        next: AtomicRef::new(),
    }));
    FIRST.push(entry, &entry.next);
    edits
}

/// Whether the code mapped at `start..end` carries our changes already (a second mprotect, say).
/// Entries that some other code has replaced are forgotten. `bytes` reads what is mapped there now.
pub(crate) fn is_patched<'a>(
    start: u64,
    end: u64,
    bytes: impl Fn(u64, usize) -> Option<&'a [u8]>,
) -> bool {
    let mut patched = false;
    for entry in entries()
        .filter(|entry| entry.code.0 < end && start < entry.code.1 && !entry.gone.load(Acquire))
    {
        let inside = |edit: &&Edit| edit.address >= start && edit.end() <= end;
        let Some(sample) = entry.edits.iter().find(inside) else {
            continue;
        };
        if bytes(sample.address, sample.bytes().len()) == Some(sample.bytes()) {
            patched = true;
        } else {
            entry.gone.store(true, Release);
        }
    }
    patched
}

/// The record of the `ud2` site at `address`, for the handler of SIGILL. Safe in signal handlers.
pub fn trap_site(address: usize) -> Option<&'static SiteRecord> {
    let mut here = entries().filter(|entry| !entry.gone.load(Acquire));
    here.find_map(|entry| {
        let (_, index) = entry.traps.iter().find(|(site, _)| *site == address)?;
        entry.records().get(*index)
    })
}

/// Whether `address` is in a stub. Safe in signal handlers.
pub fn in_stub(address: usize) -> bool {
    entries().any(|entry| (entry.stubs.0..entry.stubs.1).contains(&(address as u64)))
}

/// The record of a site whose system-call instruction was moved into its stub: the kernel says that
/// it came from where the program's code goes on there, `resume`. Safe in signal handlers.
pub(crate) fn moved_to(resume: usize) -> Option<&'static SiteRecord> {
    let holds = |entry: &&Entry| (entry.stubs.0..entry.stubs.1).contains(&(resume as u64));
    let mut records = entries().filter(holds).flat_map(Entry::records);
    records.find(|record| record.resume == resume && record.is_moved())
}

/// The same by where that instruction was, or by what is behind it. Safe in signal handlers.
pub(crate) fn moved_from(address: usize) -> Option<&'static SiteRecord> {
    let holds = |entry: &&Entry| {
        let here = (entry.code.0..=entry.code.1).contains(&(address as u64));
        here && !entry.gone.load(Acquire)
    };
    let mut records = entries().filter(holds).flat_map(Entry::records);
    records.find(|record| {
        record.is_moved() && (record.instruction == address || record.behind() == address)
    })
}
