//! The userfaultfd of a process (userfaultfd(2), ioctl_userfaultfd(2)), and what the pager does
//! with it.
//!
//! One for a process, since a range belongs to at most one. No `UFFD_FEATURE_EVENT_*`: each of
//! these blocks the thread that forks, moves or unmaps until somebody has read the event, in a
//! process that may have died.

use crate::shadow::{self, OwnedFd};
use culvert_sys::PAGE64;
use culvert_sys::plain::Packed;
use culvert_sys::raw::general::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use culvert_sys::{BorrowedFd, Errno, fd, fs, nr, syscall};

const API: u64 = 0xaa;
const IOCTL_API: usize = 0xc018_aa3f;
const IOCTL_REGISTER: usize = 0xc020_aa00;
const IOCTL_UNREGISTER: usize = 0x8010_aa01;
const IOCTL_WAKE: usize = 0x8010_aa02;
const IOCTL_COPY: usize = 0xc028_aa03;
const IOCTL_WRITEPROTECT: usize = 0xc018_aa06;
const IOCTL_CONTINUE: usize = 0xc020_aa07;
const IOCTL_POISON: usize = 0xc020_aa08;

const FEATURE_MISSING_SHMEM: u64 = 1 << 5;
/// Linux 6.6.
const FEATURE_POISON: u64 = 1 << 14;
/// Write protection of shared memory, of pages that are not there yet, and without messages (Linux
/// 5.19, 6.4, 6.7).
const FEATURES_WRITES: u64 = 1 << 12 | 1 << 13 | 1 << 15;
const USER_MODE_ONLY: u32 = 1;
const MODE_MISSING: u64 = 1;
const EVENT_PAGEFAULT: u8 = 0x12;
const FLAGS: u32 = O_CLOEXEC | O_NONBLOCK;

/// A new userfaultfd of this process, and whether it catches the kernel's own accesses too: only
/// then may pages be missing, since a system call that is given one would fail with EFAULT
/// otherwise.
pub fn create() -> Result<(OwnedFd, bool), Errno> {
    let (made, full) = match open_full() {
        Ok(made) => (made, true),
        Err(_) => (fd::userfaultfd(FLAGS | USER_MODE_ONLY)?, false),
    };
    // `struct uffdio_api`: api, features, ioctls. Without poisoned pages a driver's error could not
    // be told.
    let poison = FEATURE_MISSING_SHMEM | FEATURE_POISON;
    for features in [poison | FEATURES_WRITES, poison] {
        if control(made.raw(), IOCTL_API, &mut [API, features, 0]).is_ok() {
            return Ok((made, full));
        }
    }
    control(made.raw(), IOCTL_API, &mut [API, FEATURE_MISSING_SHMEM, 0])?;
    Ok((made, false))
}

/// A userfaultfd that catches the kernel's accesses too, without features yet. EPERM, EACCES,
/// ENOENT: this user gets none, neither by userfaultfd(2) nor by `/dev/userfaultfd`.
pub fn open_full() -> Result<OwnedFd, Errno> {
    fd::userfaultfd(FLAGS)
        .or_else(|_| fd::userfaultfd_of(shadow::open(c"/dev/userfaultfd", O_RDWR, 0)?, FLAGS))
}

fn control<const N: usize>(fd: i32, request: usize, words: &mut [u64; N]) -> Result<(), Errno> {
    // SAFETY: the structures of these requests are N words long.
    unsafe {
        syscall::call(
            nr::IOCTL,
            [fd as usize, request, words.as_mut_ptr() as usize],
        )
    }
    .map(|_| ())
}

/// Missing pages in the range wait for the pager from now on.
pub fn register(fd: i32, start: u64, length: u64) -> Result<(), Errno> {
    note(fd, start, length, MODE_MISSING)
}

/// What `mode` says of pages in the range is noted from now on.
pub(crate) fn note(fd: i32, start: u64, length: u64, mode: u64) -> Result<(), Errno> {
    // `struct uffdio_register`: range, mode, ioctls.
    control(fd, IOCTL_REGISTER, &mut [start, length, mode, 0])
}

/// Protects the pages of the range by `mode` 1, or takes what protects them away by 0.
pub(crate) fn protect(fd: i32, start: u64, length: u64, mode: u64) -> Result<(), Errno> {
    // `struct uffdio_writeprotect`: range, mode.
    control(fd, IOCTL_WRITEPROTECT, &mut [start, length, mode])
}

/// They do not any more; whoever waits goes on.
pub fn unregister(fd: i32, start: u64, length: u64) -> Result<(), Errno> {
    control(fd, IOCTL_UNREGISTER, &mut [start, length])
}

/// Whoever waits for a page in the range looks again.
pub fn wake(fd: i32, start: u64, length: u64) -> Result<(), Errno> {
    control(fd, IOCTL_WAKE, &mut [start, length])
}

/// Puts `bytes`, whole pages, at `start`, unless a page is there already (EEXIST).
pub fn copy(fd: i32, start: u64, bytes: &[u8]) -> Result<(), Errno> {
    // `struct uffdio_copy`: dst, src, len, mode, copied.
    let mut words = [start, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0];
    control(fd, IOCTL_COPY, &mut words)
}

/// Enters pages of the file, which are there, into the page tables from `start` on, protected so
/// that the first store into each is noted, where none is entered yet.
///
/// A mapping whose stores are noted gets each page by a fault of its own
/// (`uffd_disable_fault_around`, include/linux/userfaultfd_k.h), which costs four times as much.
/// Where stores are not noted nothing is done (EINVAL): there the kernel enters 16 pages at a
/// fault. What cannot be entered is left to a fault.
pub fn enter(fd: i32, start: u64, length: u64) {
    const PROTECTED: u64 = 2;
    let (mut at, end) = (start, start + length);
    while at < end {
        // `struct uffdio_continue`: range, mode, mapped.
        let mut words = [at, end - at, PROTECTED, 0];
        let result = control(fd, IOCTL_CONTINUE, &mut words);
        match (result, words[3] as i64) {
            (Err(Errno::EAGAIN), entered) if entered > 0 => at += entered as u64,
            // One was there already.
            (Err(Errno::EEXIST), _) => at += PAGE64,
            _ => return,
        }
    }
}

/// Accesses to the page at `start` are SIGBUS, until the process unmaps it or gives it back by
/// madvise(MADV_DONTNEED). EEXIST: a page is there.
pub fn poison(fd: i32, start: u64) -> Result<(), Errno> {
    const DONT_WAKE: u64 = 2;
    // `struct uffdio_poison`: range, mode, updated.
    let put = || control(fd, IOCTL_POISON, &mut [start, PAGE64, 0, 0]);
    match put() {
        // What notes stores has left its mark where the page would be, and no mark is overwritten
        // by another (`mfill_atomic_pte_poison`, mm/userfaultfd.c).
        Err(Errno::EEXIST) => {
            let cleared = protect(fd, start, PAGE64, DONT_WAKE);
            cleared.map_err(|_| Errno::EEXIST).and_then(|()| put())
        }
        other => other,
    }
}

/// The address of the next fault that nobody has looked at; EAGAIN where there is none.
pub fn next(fd: i32) -> Result<u64, Errno> {
    // `struct uffd_msg`: event, padding, flags, address, thread.
    let mut message = [0u64; 4];
    let got = fs::read(BorrowedFd::number(fd), message.bytes_mut())?;
    if got != size_of_val(&message) || message[0] as u8 != EVENT_PAGEFAULT {
        return Err(Errno::EAGAIN);
    }
    Ok(message[2] & !(PAGE64 - 1))
}
