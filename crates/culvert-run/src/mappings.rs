//! The table of mappings that can be written, in a file of the run directory that everybody maps:
//! who stands in it, paging/records.rs says.

use crate::files;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use culvert::Errno;
use culvert_sys::{nr, syscall};

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
/// A page for the number of those ever used, the records, and of each what tells its file from a
/// later one of the same number.
const LENGTH: usize = 4096 + RECORDS * (size_of::<Record>() + size_of::<AtomicU64>());

static ADDRESS: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Table {
    pub(crate) used: &'static AtomicU32,
    pub(crate) records: &'static [Record; RECORDS],
    pub(crate) identities: &'static [AtomicU64; RECORDS],
}

/// Makes the table known to this process, which may not be allowed to open it later.
pub fn prepare() -> Result<(), Errno> {
    map(true).map(|_| ())
}

pub(crate) fn map(create: bool) -> Result<Table, Errno> {
    let known = ADDRESS.load(Acquire);
    let address = match known {
        0 => {
            let flags = 0o2 | if create { 0o100 } else { 0 }; // O_RDWR, O_CREAT
            let file = files::open(&super::get().file("mappings"), flags, 0o600)?;
            crate::task::limits::make_room(file.raw(), LENGTH as u64)?;
            // SAFETY: the mapping is a new one of our own file, of which every page is there, and
            // lives for ever.
            let made = unsafe {
                const READ_WRITE: usize = 3;
                const MAP_SHARED: usize = 1;
                let arguments = [
                    culvert_sys::place::hint(LENGTH),
                    LENGTH,
                    READ_WRITE,
                    MAP_SHARED,
                    file.raw() as usize,
                    0,
                ];
                syscall::call(nr::MMAP, arguments)?
            };
            match ADDRESS.compare_exchange(0, made, AcqRel, Acquire) {
                Ok(_) => made,
                Err(first) => {
                    // SAFETY: made above and seen by nobody.
                    let _ = unsafe { syscall::call(nr::MUNMAP, [made, LENGTH]) };
                    first
                }
            }
        }
        known => known,
    };
    // SAFETY: mapped for ever, with this layout, all of atomic words.
    unsafe {
        Ok(Table {
            used: &*(address as *const AtomicU32),
            records: &*((address + 4096) as *const [Record; RECORDS]),
            identities: &*((address + 4096 + size_of::<[Record; RECORDS]>())
                as *const [AtomicU64; RECORDS]),
        })
    }
}

impl Table {
    pub(crate) fn used(&self) -> &'static [Record] {
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
