//! Changing code that is mapped.

use crate::chunk::Change;
use crate::maps::Mapping;
use crate::user::{self, CopyError};
use alloc::{vec, vec::Vec};
use culvert_sys::fd::CWD;
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::{PAGE64, fs, memory};

/// Makes all of `changes`, sorted by address and without overlaps, in the mapping `code` of an
/// object that lies `bias` above its link-time addresses; those that reach out of it are refused
/// with all others.
///
/// Two ways: make the mapping writable for the time being, which costs two system calls and a fault
/// for each page, or, where that is forbidden (MemoryDenyWriteExecute, sealed mappings), write
/// through `/proc/self/mem` page by page: the kernel then copies pages as for a debugger
/// (FOLL_FORCE).
///
/// # Safety
/// `code` is a private mapping that is as described; the changes make sense; no other thread runs
/// what they change.
pub unsafe fn apply(code: &Mapping, bias: u64, changes: &[Change]) -> Result<(), &'static str> {
    let inside = |change: &Change| change.start(bias) >= code.start && change.end(bias) <= code.end;
    if !changes.iter().all(inside) {
        return Err("sites outside of the mapping");
    }
    let readable = [Protection::empty(), Protection::READ][usize::from(code.readable)];
    let own = Protection::EXEC | readable;
    let (start, length) = (code.start as usize, (code.end - code.start) as usize);
    // All of the mapping at once, so that it is not split. Always with PROT_EXEC: a refusal then
    // comes before anything has changed.
    // SAFETY: adds a right for now, or takes it away again.
    let protect = |rights| unsafe { memory::protect(start, length, rights) };
    if !code.writable && protect(own | Protection::READ | Protection::WRITE).is_err() {
        return through_memory_file(bias, changes);
    }
    let store = |change: &Change| user::copy_out(change.start(bias) as usize, change.new_bytes());
    let stored = changes.iter().try_for_each(store);
    if !code.writable {
        // A failure leaves the code writable, which is no reason to give up: it is complete.
        let _ = protect(own);
    }
    stored.map_err(|_| GONE)
}

const GONE: &str = "the code is not mapped any more";

fn through_memory_file(bias: u64, changes: &[Change]) -> Result<(), &'static str> {
    let file = fs::openat(CWD, c"/proc/self/mem", OFlags::RDWR | OFlags::CLOEXEC, 0);
    let file = file.map_err(|_| "neither mprotect nor /proc/self/mem may change code")?;
    for run in runs(bias, changes) {
        // The same bytes, but for the changes.
        let bytes = run.contents().map_err(|_| GONE)?;
        if fs::pwrite(&file, &bytes, run.start) != Ok(bytes.len()) {
            // What has been written stays: each site is complete in itself.
            return Err("the kernel refuses to change code");
        }
    }
    Ok(())
}

/// Changes in neighbouring pages, to be written in one call.
struct Run<'a> {
    start: u64,
    end: u64,
    bias: u64,
    changes: &'a [Change],
}

impl Run<'_> {
    /// Memory from `start` to `end` with the changes made.
    fn contents(&self) -> Result<Vec<u8>, CopyError> {
        let mut bytes = vec![0; (self.end - self.start) as usize];
        user::copy_in(&mut bytes, self.start as usize)?;
        for change in self.changes {
            let offset = (change.start(self.bias) - self.start) as usize;
            let new = change.new_bytes();
            if let Some(place) = bytes.get_mut(offset..offset + new.len()) {
                place.copy_from_slice(new);
            }
        }
        Ok(bytes)
    }
}

/// Splits where more than a page lies between two changes. A run begins and ends with a change, so
/// it leaves no mapping that they are in.
fn runs(bias: u64, changes: &[Change]) -> impl Iterator<Item = Run<'_>> {
    changes
        .chunk_by(move |before, after| after.start(bias).saturating_sub(before.end(bias)) < PAGE64)
        .filter_map(move |changes| {
            let (first, last) = (changes.first()?, changes.last()?);
            Some(Run {
                start: first.start(bias),
                end: last.end(bias),
                bias,
                changes,
            })
        })
}
