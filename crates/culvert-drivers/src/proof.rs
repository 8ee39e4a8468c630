//! Proof of life: a description that is open only by a mapping, and holds a lock in the name of its
//! process.
//!
//! The kernel drops an OFD lock with the last reference on its description (`locks_remove_file`,
//! fs/locks.c). A descriptor would hold one for as long as *anybody* has the table that it is in,
//! and that may be another process too (clone(2), `CLONE_FILES`). The mapping ends with the memory
//! of its process, by exec and by kill -9, and children of fork do not get it (`MADV_DONTFORK`).

use crate::Descriptor;
use core::mem;
use culvert::Errno;
use culvert_sys::PAGE;
use culvert_sys::{nr, raw::general as linux, syscall};

/// The page that keeps the description open. Nobody touches it; it can not be.
#[derive(Debug)]
pub struct Proof(usize);

impl Proof {
    /// Of the description in `descriptor`, which need not stay open.
    pub fn of(descriptor: &Descriptor) -> Result<Self, Errno> {
        let arguments = [
            culvert_sys::place::hint(PAGE),
            PAGE,
            linux::PROT_NONE as usize,
            linux::MAP_SHARED as usize,
            descriptor.raw() as usize,
            0,
        ];
        // SAFETY: a new mapping, which nobody can read or write.
        let proof = Self(unsafe { syscall::call(nr::MMAP, arguments) }?);
        let advice = linux::MADV_DONTFORK as usize;
        // SAFETY: the mapping made above.
        unsafe { syscall::call(nr::MADVISE, [proof.0, PAGE, advice]) }?;
        Ok(proof)
    }

    /// This is the child of a fork, where the page is not.
    pub fn is_the_parents(self) {
        mem::forget(self);
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone.
        let _ = unsafe { syscall::call(nr::MUNMAP, [self.0, PAGE]) };
    }
}
