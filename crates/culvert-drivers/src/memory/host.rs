//! The system calls of the memory driver.

use crate::Descriptor;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use culvert::Errno;
use culvert_sys::raw::general as linux;
use culvert_sys::{nr, syscall};

const O_RDWR_CLOEXEC: usize = (linux::O_RDWR | linux::O_CLOEXEC | linux::O_NOFOLLOW) as usize;

/// `path` with the NUL that the kernel wants.
pub fn terminated(path: &[u8]) -> Vec<u8> {
    [path, b"\0"].concat()
}

/// Opens a file for reading and writing, links not followed.
pub fn open(path: &[u8]) -> Result<Descriptor, Errno> {
    open_with(path, O_RDWR_CLOEXEC, 0)
}

/// A new description of the file that `fd` is open on, with a number above it: the low numbers are
/// the program's.
pub fn reopen(fd: i32) -> Result<Descriptor, Errno> {
    let path = alloc::format!("{}{fd}", culvert_sys::own_descriptors::directory());
    let new = open_with(
        path.as_bytes(),
        (linux::O_RDWR | linux::O_CLOEXEC) as usize,
        0,
    )?;
    let arguments = [
        new.raw() as usize,
        linux::F_DUPFD_CLOEXEC as usize,
        fd as usize,
    ];
    // SAFETY: touches no memory of ours.
    match unsafe { syscall::call(nr::FCNTL, arguments) } {
        Ok(high) => Ok(Descriptor::from_raw(high as i32)),
        // RLIMIT_NOFILE is lower by now.
        Err(_) => Ok(new),
    }
}

/// Makes a file, mode 0600; `EEXIST` when there is something of that name.
pub fn create(path: &[u8]) -> Result<Descriptor, Errno> {
    let new = (linux::O_CREAT | linux::O_EXCL) as usize;
    open_with(path, O_RDWR_CLOEXEC | new, 0o600)
}

/// A file without a name in `directory`.
pub fn create_unnamed(directory: &[u8]) -> Result<Descriptor, Errno> {
    let flags = (linux::O_RDWR | linux::O_CLOEXEC | linux::O_TMPFILE) as usize;
    open_with(directory, flags, 0o600)
}

/// Opens a directory to look at it, links not followed.
pub fn open_directory(path: &[u8]) -> Result<Descriptor, Errno> {
    let flags = linux::O_DIRECTORY | linux::O_CLOEXEC | linux::O_NOFOLLOW;
    open_with(path, flags as usize, 0)
}

fn open_with(path: &[u8], flags: usize, mode: usize) -> Result<Descriptor, Errno> {
    let path = terminated(path);
    let here = linux::AT_FDCWD as usize;
    // SAFETY: the path ends in NUL and outlives the call.
    let fd = unsafe { syscall::call(nr::OPENAT, [here, path.as_ptr() as usize, flags, mode]) }?;
    Ok(Descriptor::from_raw(fd as i32))
}

/// mkdir(2), mode 0700, whatever the umask says.
pub fn make_directory(path: &[u8]) -> Result<(), Errno> {
    let path = terminated(path);
    // SAFETY: the path ends in NUL and outlives the call.
    unsafe {
        syscall::call(nr::MKDIR, [path.as_ptr() as usize, 0o700])?;
        syscall::call(nr::CHMOD, [path.as_ptr() as usize, 0o700]).map(drop)
    }
}

/// fchmod(2).
pub fn change_mode(fd: i32, mode: u32) -> Result<(), Errno> {
    // SAFETY: touches no memory of ours.
    unsafe { syscall::call(nr::FCHMOD, [fd as usize, mode as usize]) }.map(drop)
}

/// fallocate(2): `length` bytes from `offset` on are the file's, for good. Where the file system
/// cannot, they are written.
pub fn allocate(fd: i32, offset: u64, length: u64) -> Result<(), Errno> {
    set_aside(fd, 0, offset, length)
}

/// fallocate(2) in any mode.
pub fn set_aside(fd: i32, mode: u32, offset: u64, length: u64) -> Result<(), Errno> {
    within_limit(offset + length, || {
        set_aside_unlimited(fd, mode, offset, length)
    })
}

/// Runs `change`, which makes a file of ours `end` bytes long.
///
/// The program's RLIMIT_FSIZE is about its own files: where it stands in the way it is lifted for
/// the moment, as far as may be, for the kernel would end the program by SIGXFSZ
/// (`inode_newsize_ok`, fs/attr.c). `ENOSPC` where it may not.
pub fn within_limit(end: u64, change: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    let mut limit = [0u64; 2];
    let address = limit.as_mut_ptr() as usize;
    let resource = linux::RLIMIT_FSIZE as usize;
    // SAFETY: the kernel fills the `struct rlimit`, two words, that we own.
    unsafe { syscall::call(nr::GETRLIMIT, [resource, address]) }?;
    let [soft, hard] = limit;
    if soft >= end {
        return change();
    }
    if hard < end {
        return Err(Errno::ENOSPC);
    }
    let lifted = [hard, hard];
    // SAFETY: the kernel reads two words.
    unsafe { syscall::call(nr::SETRLIMIT, [resource, lifted.as_ptr() as usize]) }?;
    let result = change();
    // SAFETY: as above.
    let _ = unsafe { syscall::call(nr::SETRLIMIT, [resource, limit.as_ptr() as usize]) };
    result
}

/// Whether writing up to `end` is within the program's RLIMIT_FSIZE, so that the kernel does not
/// end it by SIGXFSZ.
pub fn may_write_up_to(end: u64) -> bool {
    let mut limit = [0u64; 2];
    let arguments = [linux::RLIMIT_FSIZE as usize, limit.as_mut_ptr() as usize];
    // SAFETY: the kernel fills the `struct rlimit`, two words, that we own.
    unsafe { syscall::call(nr::GETRLIMIT, arguments) }.is_ok() && limit[0] >= end
}

fn set_aside_unlimited(fd: i32, mode: u32, offset: u64, length: u64) -> Result<(), Errno> {
    let (mut offset, mut length, mut part) = (offset, length, length);
    while length > 0 {
        part = part.min(length);
        let arguments = [fd as usize, mode as usize, offset as usize, part as usize];
        // SAFETY: touches no memory of ours.
        match unsafe { syscall::call(nr::FALLOCATE, arguments) } {
            Ok(_) => {
                offset += part;
                length -= part;
            }
            // A signal undoes all of the call (`shmem_fallocate`, mm/shmem.c): under a quick timer
            // only small ones come to an end.
            Err(Errno::EINTR) => part = (part / 2).next_multiple_of(4096),
            Err(Errno::EOPNOTSUPP) if mode == 0 => return write_zeroes(fd, offset, length),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn write_zeroes(fd: i32, mut offset: u64, mut length: u64) -> Result<(), Errno> {
    let zeroes = [0u8; 4096];
    while length > 0 {
        let count = length.min(4096) as usize;
        let arguments = [
            fd as usize,
            zeroes.as_ptr() as usize,
            count,
            offset as usize,
        ];
        // SAFETY: the buffer is given with its length.
        match unsafe { syscall::call(nr::PWRITE64, arguments) } {
            Ok(0) => return Err(Errno::ENOSPC),
            Ok(count) => {
                offset += count as u64;
                length -= count as u64;
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Maps `length` bytes from `offset` on, shared. Pages past the end of the file are there once the
/// file has grown.
pub fn map(fd: i32, offset: u64, length: u64) -> Result<*mut u8, Errno> {
    const MADV_DONTDUMP: usize = 16;
    let protection = (linux::PROT_READ | linux::PROT_WRITE) as usize;
    let arguments = [
        culvert_sys::place::hint(length as usize),
        length as usize,
        protection,
        linux::MAP_SHARED as usize,
        fd as usize,
        offset as usize,
    ];
    // SAFETY: a new mapping at a place that the kernel chooses; the advice keeps it out of core
    // files.
    unsafe {
        let start = syscall::call(nr::MMAP, arguments)?;
        let _ = syscall::call(nr::MADVISE, [start, length as usize, MADV_DONTDUMP]);
        Ok(start as *mut u8)
    }
}

/// Removes a mapping of [`map`].
pub fn unmap(start: *mut u8, length: u64) {
    // SAFETY: the caller's own mapping, which nobody uses any more.
    let _ = unsafe { syscall::call(nr::MUNMAP, [start as usize, length as usize]) };
}

/// Makes pages present at once (MADV_POPULATE_WRITE, Linux 5.14): cheaper than a fault for each.
/// Advice only.
pub fn populate(start: *mut u8, length: u64) {
    const MADV_POPULATE_WRITE: usize = 23;
    let arguments = [start as usize, length as usize, MADV_POPULATE_WRITE];
    // SAFETY: changes no content.
    let _ = unsafe { syscall::call(nr::MADVISE, arguments) };
}

/// Sleeps while `*word == expected`, at most 20 ms; also between processes.
pub fn wait(word: &AtomicU32, expected: u32) {
    let limit = [0usize, 20_000_000];
    let arguments = [
        word.as_ptr() as usize,
        0, // FUTEX_WAIT
        expected as usize,
        limit.as_ptr() as usize,
    ];
    // SAFETY: the word and the limit outlive the call.
    let _ = unsafe { syscall::call(nr::FUTEX, arguments) };
}

/// Wakes all who [`wait`] on `word`.
pub fn wake(word: &AtomicU32) {
    let arguments = [word.as_ptr() as usize, 1, i32::MAX as usize]; // FUTEX_WAKE
    // SAFETY: the address is only a key for the kernel.
    let _ = unsafe { syscall::call(nr::FUTEX, arguments) };
}

/// `struct flock` of fcntl(2).
#[repr(C)]
struct Lock {
    kind: i16,
    whence: i16,
    start: i64,
    length: i64,
    pid: i32,
}

/// Where the bytes lie that processes lock to show that they live: far beyond any content.
const PROOFS: i64 = 1 << 62;

fn lock_call(fd: i32, command: usize, slot: u64, kind: u32) -> Result<u32, Errno> {
    let mut lock = Lock {
        kind: kind as i16,
        whence: 0,
        start: PROOFS + slot as i64,
        length: 1,
        pid: 0,
    };
    let arguments = [fd as usize, command, (&raw mut lock) as usize];
    // SAFETY: the kernel reads and fills the struct that we own.
    unsafe { syscall::call(nr::FCNTL, arguments) }?;
    Ok(lock.kind as u32)
}

/// Takes the proof of life of `slot` for the description `fd` (OFD lock, fcntl(2)): `EAGAIN` while
/// another has it.
pub fn prove(fd: i32, slot: u64) -> Result<(), Errno> {
    const F_OFD_SETLK: usize = 37;
    lock_call(fd, F_OFD_SETLK, slot, linux::F_WRLCK).map(drop)
}

/// Drops the proof of life of `slot` that the description `fd` holds.
pub fn unprove(fd: i32, slot: u64) {
    const F_OFD_SETLK: usize = 37;
    // Nothing can be wrong with it: the range is one that `prove` has locked.
    let _ = lock_call(fd, F_OFD_SETLK, slot, linux::F_UNLCK);
}

/// Whether a description other than `fd` holds the proof of life of `slot`.
pub fn is_proved(fd: i32, slot: u64) -> bool {
    const F_OFD_GETLK: usize = 36;
    lock_call(fd, F_OFD_GETLK, slot, linux::F_WRLCK) != Ok(linux::F_UNLCK)
}

/// Size of a file, and free bytes of the file system that it lies on.
pub fn size(fd: i32) -> Result<u64, Errno> {
    // SAFETY: plain data for which zero is a value, filled by the kernel.
    unsafe {
        let mut stat: linux::stat = core::mem::zeroed();
        syscall::call(nr::FSTAT, [fd as usize, (&raw mut stat) as usize])?;
        Ok(stat.st_size as u64)
    }
}

/// Free bytes of the file system that `fd` lies on.
pub fn free_space(fd: i32) -> Result<u64, Errno> {
    // SAFETY: plain data for which zero is a value, filled by the kernel.
    unsafe {
        let mut stat: linux::statfs64 = core::mem::zeroed();
        syscall::call(nr::FSTATFS, [fd as usize, (&raw mut stat) as usize])?;
        Ok((stat.f_bavail as u64).saturating_mul(stat.f_bsize as u64))
    }
}

/// flock(2) without waiting: whether nobody else holds `fd`'s file.
pub fn try_lock_file(fd: &Descriptor) -> bool {
    let exclusive_now = (linux::LOCK_EX | linux::LOCK_NB) as usize;
    // SAFETY: touches no memory of ours.
    unsafe { syscall::call(nr::FLOCK, [fd.raw() as usize, exclusive_now]) }.is_ok()
}
