//! Mappings that are nobody else's.

use crate::fd::{AsFd, BorrowedFd};
use crate::flags::Protection;
use crate::sync::AtomicRef;
use crate::table::{Word, calls};
use crate::{Errno, nr, place, syscall};
use core::sync::atomic::{AtomicU32, AtomicU64};
use linux_raw_sys::general as linux;

/// A mapping, removed when dropped. Its bytes are reached by addresses alone: who makes a reference
/// of them says why nobody else changes them.
#[derive(Debug)]
pub struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: addresses alone; who reaches for the bytes answers for that.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// What a mapping shows.
#[derive(Clone, Copy, Debug)]
pub enum Of<'fd> {
    /// Zeroes of its own.
    Nothing,
    /// Zeroes that another mapping may show too (mremap(2)).
    SharedNothing,
    /// Zeroes that children of fork share.
    Children,
    /// The file, from an offset on: changes are everybody's.
    Shared(BorrowedFd<'fd>, u64),
    /// The file, from an offset on: changes are its own.
    Private(BorrowedFd<'fd>, u64),
}

impl<'fd> Of<'fd> {
    /// All of a file, shared.
    pub fn file(fd: &'fd impl AsFd) -> Self {
        Self::Shared(fd.as_fd(), 0)
    }
}

impl Mapping {
    /// A new mapping apart from the program's ([`place`]).
    pub fn new(of: Of<'_>, length: usize, protection: Protection) -> Result<Self, Errno> {
        Self::near(place::hint(length), of, length, protection)
    }

    /// A new mapping, at `address` if there is room; 0: where the kernel puts it.
    pub fn near(
        address: usize,
        of: Of<'_>,
        length: usize,
        protection: Protection,
    ) -> Result<Self, Errno> {
        let (flags, fd, offset) = match of {
            Of::Nothing => (linux::MAP_PRIVATE | linux::MAP_ANONYMOUS, -1, 0),
            Of::SharedNothing => (linux::MAP_SHARED | linux::MAP_ANONYMOUS, -1, 0),
            Of::Children => (
                linux::MAP_SHARED | linux::MAP_ANONYMOUS | linux::MAP_NORESERVE,
                -1,
                0,
            ),
            Of::Shared(fd, offset) => (linux::MAP_SHARED, fd.raw(), offset),
            Of::Private(fd, offset) => (linux::MAP_PRIVATE, fd.raw(), offset),
        };
        let arguments = [
            address,
            length,
            protection.word(),
            flags as usize,
            fd.word(),
            offset.word(),
        ];
        // SAFETY: without MAP_FIXED no mapping that exists is replaced.
        let start = unsafe { syscall::call(nr::MMAP, arguments) }?;
        Ok(Self {
            start: start as *mut u8,
            length,
        })
    }

    /// Its first byte.
    #[inline]
    pub const fn start(&self) -> *mut u8 {
        self.start
    }

    /// Its address.
    #[inline]
    pub fn address(&self) -> usize {
        self.start as usize
    }

    /// Its length in bytes, as it was asked for.
    #[inline]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether it is empty: never.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// mprotect(2) of all of it.
    pub fn protect(&self, protection: usize) -> Result<(), Errno> {
        mprotect(self.address(), self.length, protection)
    }

    /// Leaves it there for good: its first byte.
    #[inline]
    pub fn leak(self) -> *mut u8 {
        let start = self.start();
        core::mem::forget(self);
        start
    }

    /// Takes back what [`Mapping::leak`] has left there.
    ///
    /// # Safety
    /// It was left by that, `length` bytes long, and nobody reaches it any more.
    pub const unsafe fn from_leaked(start: *mut u8, length: usize) -> Self {
        Self { start, length }
    }

    /// Takes all rights to its first `length` bytes away.
    pub fn guard(&self, length: usize) -> Result<(), Errno> {
        mprotect(self.address(), length.min(self.length), 0)
    }

    /// madvise(2) of all of it, with advice that changes no byte that is there.
    pub fn advise(&self, advice: Advice) -> Result<(), Errno> {
        advise(self.start, self.length, advice)
    }

    /// Gives the memory of the pages in `range` back; of [`Of::Nothing`] they are zero then.
    pub fn discard(&mut self, range: core::ops::Range<usize>) -> Result<(), Errno> {
        let end = range.end.min(self.length);
        let start = self.start.wrapping_add(range.start.min(end));
        let length = end.saturating_sub(range.start);
        advise(start, length, Advice(linux::MADV_DONTNEED))
    }
}

/// What lies in memory that other processes change at any time.
///
/// # Safety
/// All of it is atomic words, which any bytes make, and their padding.
pub unsafe trait Shared {}

// SAFETY: one atomic word.
unsafe impl Shared for AtomicU32 {}
// SAFETY: one atomic word.
unsafe impl Shared for AtomicU64 {}
// SAFETY: of such elements.
unsafe impl<T: Shared, const N: usize> Shared for [T; N] {}

/// Where a `T` is mapped for good: made at first need, by whoever comes first.
pub struct Placed<T: 'static>(AtomicRef<T>);

impl<T: Shared> Placed<T> {
    /// Nowhere yet.
    pub const fn new() -> Self {
        Self(AtomicRef::new())
    }

    /// It, if it is mapped.
    #[inline]
    pub fn get(&self) -> Option<&'static T> {
        self.0.get()
    }

    /// It, mapped from the file that `open` gives, which is long enough.
    pub fn get_or_map<F: AsFd>(
        &self,
        open: impl FnOnce() -> Result<F, Errno>,
    ) -> Result<&'static T, Errno> {
        if let Some(known) = self.0.get() {
            return Ok(known);
        }
        let file = open()?;
        let made = Mapping::new(
            Of::file(&file),
            size_of::<T>(),
            Protection::READ | Protection::WRITE,
        )?;
        // SAFETY: a whole mapping of this length, of words that others may change; it goes below
        // only if nobody has seen it.
        let value = unsafe { &*made.start().cast::<T>() };
        match self.0.set_first(value) {
            Ok(()) => made.leak(),
            Err(first) => return Ok(first),
        };
        Ok(value)
    }
}

impl<T: Shared> Default for Placed<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's alone, and nothing borrows from it any more.
        let _ = unsafe { syscall::call(nr::MUNMAP, [self.start as usize, self.length]) };
    }
}

/// `PROCMAP_QUERY` of `/proc/PID/maps` (Linux 6.11) for `address`: start, end, permissions, page
/// size, offset, inode and device.
pub fn query(maps: impl AsFd, address: u64, flags: u64) -> Result<[u64; 7], Errno> {
    // `struct procmap_query`, which ends with where name and build-id go: nowhere.
    let mut query = [0; 13];
    query[..3].copy_from_slice(&[size_of::<[u64; 13]>() as u64, flags, address]);
    query_into(maps.as_fd(), &mut query)?;
    let [_, _, _, found @ .., _, _, _] = query;
    Ok(found)
}

/// mprotect(2).
///
/// # Safety
/// Nobody reads, writes or runs what this forbids.
pub unsafe fn protect(start: usize, length: usize, protection: Protection) -> Result<(), Errno> {
    mprotect(start, length, protection.word())
}

/// The pages from `start` on are zeroes of this process's own from here on (mmap(2), MAP_FIXED).
///
/// # Safety
/// They are a mapping of the caller's, to whom zeroes are as good as what is there.
pub unsafe fn empty(start: usize, length: usize) -> Result<(), Errno> {
    let flags = linux::MAP_PRIVATE | linux::MAP_ANONYMOUS | linux::MAP_FIXED | linux::MAP_NORESERVE;
    let rights = Protection::READ | Protection::WRITE;
    let words = [start, length, rights.word(), flags as usize, usize::MAX, 0];
    // SAFETY: the caller's promise.
    unsafe { syscall::call(nr::MMAP, words) }.map(|_| ())
}

/// Advice of madvise(2) that changes no byte.
#[derive(Clone, Copy, Debug)]
pub struct Advice(u32);

impl Advice {
    /// `MADV_DONTDUMP`.
    pub const DONTDUMP: Self = Self(linux::MADV_DONTDUMP);
    /// `MADV_DONTFORK`: children of fork do not get it.
    pub const DONTFORK: Self = Self(linux::MADV_DONTFORK);
    /// `MADV_COLLAPSE` (Linux 6.1): in large pages, now.
    pub const COLLAPSE: Self = Self(linux::MADV_COLLAPSE);
}

/// Policies of mbind(2) (include/uapi/linux/mempolicy.h): the values of `MPOL_PREFERRED` and those
/// behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Policy {
    Preferred = 1,
    Bind = 2,
    Interleave = 3,
    Local = 4,
}

/// mbind(2) of all of `mapping`: pages that are made from now on come from `nodes`, a bit each.
pub fn bind(mapping: &Mapping, policy: Policy, nodes: &[u64]) -> Result<(), Errno> {
    let (first, bits) = match nodes {
        [] => (core::ptr::null(), 0),
        // One more than there are bits (`get_nodes`, mm/mempolicy.c).
        nodes => (nodes.as_ptr(), nodes.len() * 64 + 1),
    };
    mbind(mapping.start(), mapping.len(), policy as u32, first, bits)
}

/// The nodes that this process may have memory from (get_mempolicy(2), `MPOL_F_MEMS_ALLOWED`).
pub fn allowed_nodes<const WORDS: usize>() -> Result<[u64; WORDS], Errno> {
    let mut nodes = [0; WORDS];
    mempolicy(nodes.as_mut_ptr(), WORDS * 64)?;
    Ok(nodes)
}

/// `MPOL_F_MEMS_ALLOWED`
const MEMS_ALLOWED: u32 = 4;

calls! {
    fn mbind(start: *mut u8, length: usize, policy: u32, nodes: *const u64, bits: usize) -> ()
        = MBIND[start, length, policy, nodes, bits, 0];
    fn mempolicy(nodes: *mut u64, bits: usize) -> ()
        = GET_MEMPOLICY[0, nodes, bits, 0, MEMS_ALLOWED];
    fn mprotect(start: usize, length: usize, protection: usize) -> ()
        = MPROTECT[start, length, protection];
    /// The end of the heap: brk(2) with an impossible address.
    pub fn program_break() -> u64 = BRK[0];
    fn query_into(maps: BorrowedFd<'_>, query: &mut [u64; 13]) -> ()
        = IOCTL[maps, 0xc068_6611u32, query.as_mut_ptr()];
    /// madvise(2), `MADV_POPULATE_READ` (Linux 5.14): brings the pages in.
    pub fn populate_read(start: *mut u8, length: usize) -> ()
        = MADVISE[start, length, linux::MADV_POPULATE_READ];
    /// madvise(2), `MADV_POPULATE_WRITE` (Linux 5.14): as if they were written.
    pub fn populate_write(start: *mut u8, length: usize) -> ()
        = MADVISE[start, length, linux::MADV_POPULATE_WRITE];
    /// madvise(2), with advice that changes no byte that is there.
    fn advise(start: *mut u8, length: usize, advice: Advice) -> ()
        = MADVISE[start, length, advice.0];
    /// msync(2), `MS_ASYNC`, which only says whether something is mapped at each address (ENOMEM).
    pub fn ask(start: usize, length: usize) -> () = MSYNC[start, length, linux::MS_ASYNC];
}

/// Here, above the lock: what it is asked on is a page that cannot be written.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE;
    use crate::flags::Protection;
    use crate::sync::{Mutex, RawFutex};
    use lock_api::RawMutex;

    #[test]
    fn who_asks_for_a_lock_writes_nothing() {
        let page = Mapping::new(Of::Nothing, PAGE, Protection::READ).unwrap();
        // SAFETY: zeroes, which are a free lock, and stay mapped.
        let free = unsafe { &*page.start().cast::<RawFutex>() };
        assert!(!free.is_locked());
        let held = Mutex::new(());
        let _guard = held.lock();
        assert!(held.is_locked());
    }
}
