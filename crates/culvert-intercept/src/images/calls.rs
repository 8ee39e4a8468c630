//! The system calls by which images are mapped in place of objects.

use culvert_sys::{BorrowedFd, Errno, nr, syscall};

pub const MAP_TYPE: usize = 0xf;
pub const MAP_PRIVATE: usize = 2;
pub const MAP_FIXED: usize = 0x10;
pub const MAP_ANONYMOUS: usize = 0x20;
pub const MAP_DENYWRITE: usize = 0x800;
pub const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
pub const PROT_READ: usize = 1;
pub const PROT_WRITE: usize = 2;
pub const PROT_EXEC: usize = 4;

/// A new mapping with these flags.
pub fn map(
    address: u64,
    length: u64,
    rights: usize,
    flags: usize,
    file: Option<(BorrowedFd<'_>, u64)>,
) -> Result<u64, Errno> {
    let (fd, offset) = match file {
        Some((file, offset)) => (file.raw() as usize, offset),
        None => (usize::MAX, 0),
    };
    let arguments = [
        address as usize,
        length as usize,
        rights,
        flags,
        fd,
        offset as usize,
    ];
    // SAFETY: callers replace nothing but what they have mapped, or what the program replaces.
    unsafe { syscall::call(nr::MMAP, arguments) }.map(|start| start as u64)
}

/// mprotect(2) of what was mapped here.
pub fn protect(start: u64, length: u64, rights: usize) -> Result<(), Errno> {
    let arguments = [start as usize, length as usize, rights];
    // SAFETY: what callers have mapped, or the object's own code, which nobody runs yet.
    unsafe { syscall::call(nr::MPROTECT, arguments) }.map(drop)
}

/// munmap(2) of what was mapped here.
pub fn unmap(start: u64, length: u64) -> Result<(), Errno> {
    // SAFETY: what was mapped here and is not used yet.
    unsafe { syscall::call(nr::MUNMAP, [start as usize, length as usize]) }.map(drop)
}
