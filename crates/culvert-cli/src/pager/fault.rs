//! One missing page.

use super::{file::File, room, table::RangeOf};
use culvert::Errno;
use culvert_cache::pager::userfault;
use std::sync::Arc;

/// Fills what is missing at `address` of `range` and wakes who waits; what cannot be read is SIGBUS
/// there, with the reason in the log.
pub fn resolve(userfault: i32, slot: u32, range: &RangeOf, file: &Arc<File>, address: u64) {
    let at = range.offset + (address - range.start);
    let addresses_of = |(from, to): (u64, u64)| {
        let address_of = |byte: u64| {
            let byte = byte.clamp(range.offset, range.offset + range.length);
            range.start + (byte - range.offset)
        };
        (address_of(from), address_of(to))
    };
    let enter = |window| {
        let (start, end) = addresses_of(window);
        userfault::enter(userfault, start, end - start);
    };
    let outcome = fill(file, at, slot, enter).and_then(|filled| match filled {
        Some(window) => Ok(Some(window)),
        None => without_lock(userfault, slot, file, at, address).map(|()| None),
    });
    match outcome {
        Ok(Some(window)) => {
            let (start, end) = addresses_of(window);
            let _ = userfault::wake(userfault, start, end - start);
        }
        Ok(None) => {}
        Err(error) => {
            culvert_sys::log!(
                "byte {at} of node {:x} of mount {}, which is mapped, cannot be read, SIGBUS: \
                {error}",
                range.node,
                range.mount
            );
            refuse(userfault, address);
        }
    }
}

/// [`File::fill`], with room for it.
fn fill(
    file: &Arc<File>,
    at: u64,
    slot: u32,
    enter: impl Fn((u64, u64)),
) -> culvert::Result<Option<(u64, u64)>> {
    /// Others take what was made free, too.
    const TRIES: usize = 4;
    room::make(room::most(), slot);
    let mut filled = file.fill(at, slot, &enter);
    for _ in 0..TRIES {
        let full = matches!(&filled, Err(error) if error.errno() == Errno::ENOSPC);
        if !full || room::drop_where_full(4 * room::MOST, slot) == 0 {
            break;
        }
        filled = file.fill(at, slot, &enter);
    }
    filled
}

/// Whoever touches the page gets SIGBUS.
pub fn refuse(userfault: i32, address: u64) {
    match userfault::poison(userfault, address) {
        // Somebody has filled it meanwhile, or the process, or its mapping, is gone.
        Ok(()) | Err(Errno::EEXIST | Errno::ENOENT | Errno::ESRCH | Errno::EFAULT) => {}
        Err(error) => {
            culvert_sys::log!("the page at {address:x} cannot be made SIGBUS: {error}")
        }
    }
    let _ = userfault::wake(userfault, address, culvert_sys::PAGE64);
}

/// The process that waits for the page has the file's lock (a read or write of the file, from or
/// into this very mapping), or the one that has it waits for a page itself: the page is put into
/// the shadow in one step if it is still missing. Whoever changes bytes of the file has filled
/// their pages before.
fn without_lock(
    userfault: i32,
    slot: u32,
    file: &File,
    at: u64,
    address: u64,
) -> culvert::Result<()> {
    let put = || -> culvert::Result<Result<(), Errno>> {
        let _kept = room::nothing_goes();
        let page = file.page(at)?;
        Ok(userfault::copy(userfault, address, &page))
    };
    let mut done = put()?;
    if matches!(done, Err(Errno::ENOMEM | Errno::ENOSPC)) {
        room::drop_where_full(room::MOST, slot);
        done = put()?;
    }
    match done {
        Ok(()) | Err(Errno::EEXIST | Errno::EAGAIN | Errno::ENOENT | Errno::ESRCH) => {
            let _ = userfault::wake(userfault, address, culvert_sys::PAGE64);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
