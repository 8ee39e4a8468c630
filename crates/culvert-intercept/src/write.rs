//! Changing code that is mapped.

use crate::maps::Mapping;
use crate::stub::Edit;
use alloc::vec::Vec;
use culvert_sys::PAGE64;
use culvert_sys::fd::CWD;
use culvert_sys::flags::OFlags;
use culvert_sys::fs;
use culvert_sys::{Errno, nr, raw::general as linux, syscall};

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
    // SAFETY: the caller's promise, and all edits are inside.
    unsafe { store(code, edits).or_else(|_| through_memory_file(edits)) }
}

unsafe fn store(code: &Mapping, edits: &[Edit]) -> Result<(), Errno> {
    let own = linux::PROT_EXEC | if code.readable { linux::PROT_READ } else { 0 };
    let (start, length) = (code.start as usize, (code.end - code.start) as usize);
    // All of the mapping at once, so that it is not split. Always with PROT_EXEC: a refusal then
    // comes before anything has changed.
    let protect = |protection: u32| {
        // SAFETY: adds a right for now, or takes it away again.
        unsafe { syscall::call(nr::MPROTECT, [start, length, protection as usize]) }
    };
    if !code.writable {
        protect(own | linux::PROT_READ | linux::PROT_WRITE)?;
    }
    for edit in edits {
        // SAFETY: inside of the mapping, which is writable.
        unsafe {
            core::ptr::copy_nonoverlapping(
                edit.bytes().as_ptr(),
                edit.address as *mut u8,
                edit.bytes().len(),
            )
        };
    }
    if !code.writable {
        // A failure leaves the code writable, which is no reason to give up: it is complete.
        let _ = protect(own);
    }
    Ok(())
}

unsafe fn through_memory_file(edits: &[Edit]) -> Result<(), &'static str> {
    let file = fs::openat(CWD, c"/proc/self/mem", OFlags::RDWR | OFlags::CLOEXEC, 0);
    let file = file.map_err(|_| "neither mprotect nor /proc/self/mem may change code")?;
    for run in runs(edits) {
        // SAFETY: the run is inside of the mapping, which can be read.
        let bytes = unsafe { run.contents() };
        // The same bytes, but for the edits.
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
    ///
    /// # Safety
    /// It can be read and nobody writes it.
    unsafe fn contents(&self) -> Vec<u8> {
        // SAFETY: the caller's promise.
        let mut bytes = unsafe {
            core::slice::from_raw_parts(self.start as *const u8, (self.end - self.start) as usize)
        }
        .to_vec();
        for edit in self.edits {
            let offset = (edit.address - self.start) as usize;
            if let Some(place) = bytes.get_mut(offset..offset + edit.bytes().len()) {
                place.copy_from_slice(edit.bytes());
            }
        }
        bytes
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
