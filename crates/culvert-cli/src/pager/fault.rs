//! One missing page.

use super::{file::File, table::RangeOf};
use culvert::Errno;
use culvert_preload::paging::pager::userfault;
use std::sync::Arc;

/// Fills what is missing at `address` of `range` and wakes who waits; what cannot be read is SIGBUS there, with the reason in the log.
pub fn resolve(userfault: i32, slot: u32, range: &RangeOf, file: &Arc<File>, address: u64) {
    let at = range.offset + (address - range.start);
    let outcome = file.fill(at, slot).and_then(|filled| match filled {
        Some(window) => Ok(Some(window)),
        None => without_lock(userfault, file, at, address).map(|()| None),
    });
    match outcome {
        Ok(Some((from, to))) => {
            let address_of = |byte: u64| {
                let byte = byte.clamp(range.offset, range.offset + range.length);
                range.start + (byte - range.offset)
            };
            let (start, end) = (address_of(from), address_of(to));
            let _ = userfault::wake(userfault, start, end - start);
        }
        Ok(None) => {}
        Err(error) => {
            culvert_preload::log!(
                "byte {at} of node {:x} of mount {}, which is mapped, cannot be read, SIGBUS: {error}",
                range.node,
                range.mount
            );
            refuse(userfault, address);
        }
    }
}

/// Whoever touches the page gets SIGBUS.
pub fn refuse(userfault: i32, address: u64) {
    match userfault::poison(userfault, address) {
        // Somebody has filled it meanwhile, or the process, or its mapping, is gone.
        Ok(()) | Err(Errno::EEXIST | Errno::ENOENT | Errno::ESRCH | Errno::EFAULT) => {}
        Err(error) => {
            culvert_preload::log!("the page at {address:x} cannot be made SIGBUS: {error}")
        }
    }
    let _ = userfault::wake(userfault, address, userfault::PAGE);
}

/// The process that waits for the page has the file's lock (a read or write of the file, from or into this very mapping), or the one that has it waits for a page
/// itself: the page is put into the shadow in one step if it is still missing. Whoever changes bytes of the file has filled their pages before.
fn without_lock(userfault: i32, file: &File, at: u64, address: u64) -> culvert::Result<()> {
    let page = file.page(at)?;
    match userfault::copy(userfault, address, &page) {
        Ok(()) | Err(Errno::EEXIST | Errno::EAGAIN | Errno::ENOENT | Errno::ESRCH) => {
            let _ = userfault::wake(userfault, address, userfault::PAGE);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
