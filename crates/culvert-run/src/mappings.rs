//! The table of mappings that can be written, in a file of the run directory that everybody maps:
//! who stands in it, records.rs says.

use crate::files;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use culvert::Errno;
use culvert_sys::PAGE;
use culvert_sys::memory::{Placed, Shared};
use culvert_sys::raw::general::{O_CREAT, O_RDWR};

/// One process's mappings of one node that can be written.
#[repr(C)]
pub struct Record {
    /// The process's slot; 0: free.
    pub(crate) owner: AtomicU32,
    pub(crate) mount: AtomicU32,
    pub(crate) node: AtomicU64,
    /// The bytes of the file that are mapped lie between these two; nothing is mapped yet while the
    /// first is not less.
    pub(crate) start: AtomicU64,
    pub(crate) end: AtomicU64,
}

/// The owner of records whose process is gone and whose slot another one has by now. No slot: those
/// end below.
pub const NOBODY: u32 = u32::MAX;

/// How many there can be at once in a run: 256 KiB of them.
pub(crate) const RECORDS: usize = 8192;

/// What lies in the file.
#[repr(C)]
pub(crate) struct Table {
    /// The number of records ever used.
    pub(crate) used: AtomicU32,
    rest: [AtomicU32; PAGE / 4 - 1],
    pub(crate) records: [Record; RECORDS],
    /// Of each record what tells its file from a later one of the same number.
    pub(crate) identities: [AtomicU64; RECORDS],
}

// SAFETY: atomic words.
unsafe impl Shared for Table {}

static TABLE: Placed<Table> = Placed::new();

/// Makes the table known to this process, which may not be allowed to open it later.
pub fn prepare() -> Result<(), Errno> {
    map(true).map(|_| ())
}

pub(crate) fn map(create: bool) -> Result<&'static Table, Errno> {
    TABLE.get_or_map(|| {
        let flags = O_RDWR | if create { O_CREAT } else { 0 };
        let file = files::open(&super::get().file("mappings"), flags, 0o600)?;
        crate::task::limits::make_room(file.raw(), size_of::<Table>() as u64)?;
        Ok(file)
    })
}

impl Table {
    pub(crate) fn used(&self) -> &[Record] {
        let count = (self.used.load(Acquire) as usize).min(RECORDS);
        &self.records[..count]
    }
}

/// The owners of the valid records in the file `mappings` of a run, given as `table`.
pub fn owners_in(table: &[u8]) -> impl Iterator<Item = u32> {
    let records = table.get(4096..).unwrap_or_default();
    records
        .chunks_exact(size_of::<Record>())
        .take(RECORDS)
        .filter_map(|record| {
            let word = |at: usize| {
                let bytes = record
                    .get(at..at + 8)
                    .and_then(|bytes| bytes.try_into().ok());
                u64::from_ne_bytes(bytes.unwrap_or_default())
            };
            // The owner is the first half of its word; the range follows mount and node.
            let owner = word(0) as u32;
            (owner != 0 && word(16) < word(24)).then_some(owner)
        })
}

/// The slot `slot` begins anew: what records it has are those of a process that is gone.
pub fn orphan(slot: u32) {
    let Ok(table) = map(false) else { return };
    for record in table.used() {
        let _ = record.owner.compare_exchange(slot, NOBODY, AcqRel, Relaxed);
    }
}
