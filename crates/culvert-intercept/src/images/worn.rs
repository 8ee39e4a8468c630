//! Whether the kernel maps the pages of a store one by one.
//!
//! At a page fault it maps the pages around as well. When somebody drops the machine's caches
//! (vm.drop_caches, as batch systems do between jobs), it marks the pages of a tmpfs that nobody
//! has mapped as about to be written (`PG_reclaim`, `lru_deactivate_file`, mm/swap.c). The same bit
//! is that of read-ahead (`PG_readahead`), whose pages are not mapped on the way
//! (`next_uptodate_folio`, mm/filemap.c), and nothing takes it away from a file that is only read:
//! a start takes 75 page faults more from then on. A store that is made anew does not have it.

use culvert_sys::fd::AsFd;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of, populate_read};
use culvert_sys::{Errno, OwnedFd, PAGE, fd, fs, process};

/// Pages that are mapped around one: 64 KiB by default.
const AROUND: usize = 16;

/// Whether `file`, `length` bytes long, is so marked. Its last pages tell: a store's index ends in
/// entries that nobody has written or asked for. Not where the kernel maps none around any page.
pub fn is_worn(file: impl AsFd, length: usize) -> bool {
    let Some(before) = length.checked_sub(AROUND * PAGE) else {
        return false;
    };
    is_each_a_fault(file, before) && fresh().is_ok_and(|fresh| !is_each_a_fault(&fresh, 0))
}

/// Whether most of the pages from `offset` on take a page fault each.
fn is_each_a_fault(file: impl AsFd, offset: usize) -> bool {
    let of = Of::Shared(file.as_fd(), offset as u64);
    let faults = Mapping::new(of, AROUND * PAGE, Protection::READ).and_then(|mapping| {
        let before = process::minor_faults()?;
        // Where the file was cut meanwhile this is an error, not a signal.
        populate_read(mapping.address() as *mut u8, AROUND * PAGE)?;
        Ok(process::minor_faults()? - before)
    });
    faults.is_ok_and(|faults| faults > AROUND as u64 / 2)
}

/// Such pages that nobody can have marked.
fn fresh() -> Result<OwnedFd, Errno> {
    const CLOEXEC: u32 = 1;
    let file = fd::memfd_create(c"culvert", CLOEXEC)?;
    for _ in 0..AROUND {
        fs::write(&file, &[0; PAGE])?;
    }
    Ok(file)
}
