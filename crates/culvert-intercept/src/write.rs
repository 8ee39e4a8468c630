//! Changing code that is mapped.

use crate::maps::Mapping;
use crate::stub::Edit;
use crate::user::{self, CopyError};
use alloc::{vec, vec::Vec};
use culvert_sys::fd::CWD;
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::{PAGE64, fs, memory};

/// Makes all of `edits`, sorted by address and without overlaps, in the mapping `code`; those that
/// reach out of it are refused with all others.
///
/// Two ways: make the mapping writable for the time being, which costs two system calls and a fault
/// for each page, or, where that is forbidden (MemoryDenyWriteExecute, sealed mappings), write
/// through `/proc/self/mem` page by page: the kernel then copies pages as for a debugger
/// (FOLL_FORCE).
///
/// # Safety
/// `code` is a private mapping that is as described; the edits make sense; no other thread runs
/// what they change.
pub unsafe fn apply(code: &Mapping, edits: &[Edit]) -> Result<(), &'static str> {
    let inside = |edit: &Edit| edit.address >= code.start && edit.end() <= code.end;
    if !edits.iter().all(inside) {
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
        return through_memory_file(edits);
    }
    let store = |edit: &Edit| user::copy_out(edit.address as usize, edit.bytes());
    let stored = edits.iter().try_for_each(store);
    if !code.writable {
        // A failure leaves the code writable, which is no reason to give up: it is complete.
        let _ = protect(own);
    }
    stored.map_err(|_| GONE)
}

const GONE: &str = "the code is not mapped any more";

fn through_memory_file(edits: &[Edit]) -> Result<(), &'static str> {
    let file = fs::openat(CWD, c"/proc/self/mem", OFlags::RDWR | OFlags::CLOEXEC, 0);
    let file = file.map_err(|_| "neither mprotect nor /proc/self/mem may change code")?;
    for run in runs(edits) {
        // The same bytes, but for the edits.
        let bytes = run.contents().map_err(|_| GONE)?;
        if fs::pwrite(&file, &bytes, run.start) != Ok(bytes.len()) {
            // What has been written stays: each site is complete in itself.
            return Err("the kernel refuses to change code");
        }
    }
    Ok(())
}

/// Edits in neighbouring pages, to be written in one call.
struct Run<'a> {
    start: u64,
    end: u64,
    edits: &'a [Edit],
}

impl Run<'_> {
    /// Memory from `start` to `end` with the edits made.
    fn contents(&self) -> Result<Vec<u8>, CopyError> {
        let mut bytes = vec![0; (self.end - self.start) as usize];
        user::copy_in(&mut bytes, self.start as usize)?;
        for edit in self.edits {
            let offset = (edit.address - self.start) as usize;
            if let Some(place) = bytes.get_mut(offset..offset + edit.bytes().len()) {
                place.copy_from_slice(edit.bytes());
            }
        }
        Ok(bytes)
    }
}

/// Splits where more than a page lies between two edits. A run begins and ends with an edit, so it
/// leaves no mapping that they are in.
fn runs(edits: &[Edit]) -> impl Iterator<Item = Run<'_>> {
    edits
        .chunk_by(move |before, after| after.address.saturating_sub(before.end()) < PAGE64)
        .filter_map(move |edits| {
            let (first, last) = (edits.first()?, edits.last()?);
            Some(Run {
                start: first.address,
                end: last.end(),
                edits,
            })
        })
}
