//! The system calls of the memory driver.

use crate::{OwnedFd, archive::host::terminated};
use core::sync::atomic::AtomicU32;
use culvert::Errno;
use culvert_sys::fd::{self, AsFd, BorrowedFd, CWD, LockCommand};
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::memory::{Advice, Mapping, Of};
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, process, sync};

const RDWR: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW);

/// Opens a file for reading and writing, links not followed.
pub fn open(path: &[u8]) -> Result<OwnedFd, Errno> {
    open_with(path, RDWR, 0)
}

/// A new description of the file that `fd` is open on, with a number above it: the low numbers are
/// the program's.
pub fn reopen(fd: impl AsFd) -> Result<OwnedFd, Errno> {
    let fd = fd.as_fd().raw();
    let path = alloc::format!("{}{fd}", culvert_sys::own_descriptors::directory());
    let new = open_with(path.as_bytes(), OFlags::RDWR, 0)?;
    // RLIMIT_NOFILE may be lower by now.
    Ok(fd::duplicate(&new, fd).unwrap_or(new))
}

/// Makes a file, mode 0600; `EEXIST` when there is something of that name.
pub fn create(path: &[u8]) -> Result<OwnedFd, Errno> {
    open_with(path, RDWR | OFlags::CREAT | OFlags::EXCL, 0o600)
}

/// A file without a name in `directory`.
pub fn create_unnamed(directory: &[u8]) -> Result<OwnedFd, Errno> {
    open_with(directory, OFlags::RDWR | OFlags::TMPFILE, 0o600)
}

/// Opens a directory to look at it, links not followed.
pub fn open_directory(path: &[u8]) -> Result<OwnedFd, Errno> {
    open_with(path, OFlags::DIRECTORY | OFlags::NOFOLLOW, 0)
}

fn open_with(path: &[u8], flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
    fs::openat(CWD, &terminated(path)?, flags | OFlags::CLOEXEC, mode)
}

/// mkdir(2), mode 0700, whatever the umask says.
pub fn make_directory(path: &[u8]) -> Result<(), Errno> {
    let path = terminated(path)?;
    fs::mkdir(&path, 0o700)?;
    fs::chmod(&path, 0o700)
}

/// fallocate(2): `length` bytes from `offset` on are the file's, for good. Where the file system
/// has none, what lies behind the end of the file is written (without a mode), and holes stay.
pub fn set_aside(fd: impl AsFd, mode: u32, offset: u64, length: u64) -> Result<(), Errno> {
    within_limit(offset + length, || {
        set_aside_unlimited(fd.as_fd(), mode, offset, length)
    })
}

/// Runs `change`, which makes a file of ours `end` bytes long.
///
/// The program's RLIMIT_FSIZE is about its own files: where it stands in the way it is lifted for
/// the moment, as far as may be, for the kernel would end the program by SIGXFSZ
/// (`inode_newsize_ok`, fs/attr.c). `ENOSPC` where it may not.
pub fn within_limit(end: u64, change: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    let limit @ [soft, hard] = process::getrlimit(linux::RLIMIT_FSIZE)?;
    if soft >= end {
        return change();
    }
    if hard < end {
        return Err(Errno::ENOSPC);
    }
    process::setrlimit(linux::RLIMIT_FSIZE, &[hard, hard])?;
    let result = change();
    let _ = process::setrlimit(linux::RLIMIT_FSIZE, &limit);
    result
}

/// Whether the program's RLIMIT_FSIZE, which it cannot raise, forbids files of `end` bytes.
pub fn is_beyond_limit(end: u64) -> bool {
    process::getrlimit(linux::RLIMIT_FSIZE).is_ok_and(|[_, hard]| hard < end)
}

/// Whether writing up to `end` is within the program's RLIMIT_FSIZE, so that the kernel does not
/// end it by SIGXFSZ.
pub fn may_write_up_to(end: u64) -> bool {
    process::getrlimit(linux::RLIMIT_FSIZE).is_ok_and(|[soft, _]| soft >= end)
}

fn set_aside_unlimited(
    fd: BorrowedFd<'_>,
    mode: u32,
    offset: u64,
    length: u64,
) -> Result<(), Errno> {
    let (mut offset, mut length, mut part) = (offset, length, length);
    while length > 0 {
        part = part.min(length);
        match fs::fallocate(fd, mode, offset, part) {
            Ok(_) => {
                offset += part;
                length -= part;
            }
            // A signal undoes all of the call (`shmem_fallocate`, mm/shmem.c): under a quick timer
            // only small ones come to an end.
            Err(Errno::EINTR) => part = (part / 2).next_multiple_of(4096),
            Err(Errno::EOPNOTSUPP) if mode == 0 => {
                // What is there may be content.
                let end = offset + length;
                let from = offset.max(fs::fstat(fd)?.st_size as u64);
                return write_zeroes(fd, from.min(end), end.saturating_sub(from));
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn write_zeroes(fd: BorrowedFd<'_>, offset: u64, length: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < length {
        let count = (length - done).min(4096);
        write(fd, &[0; 4096][..count as usize], offset + done).1?;
        done += count;
    }
    Ok(())
}

/// pwrite(2) of `bytes`: how many were written, and why not all.
pub fn write(fd: impl AsFd, bytes: &[u8], offset: u64) -> (usize, Result<(), Errno>) {
    let mut done = 0;
    while done < bytes.len() {
        let offset = offset + done as u64;
        match fs::pwrite(&fd, &bytes[done..], offset) {
            Ok(0) => return (done, Err(Errno::ENOSPC)),
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            Err(errno) => return (done, Err(errno)),
        }
    }
    (done, Ok(()))
}

/// Maps `length` bytes from `offset` on, shared, and keeps them out of core files. Pages past the
/// end of the file are there once the file has grown.
pub fn map(fd: BorrowedFd<'_>, offset: u64, length: u64) -> Result<Mapping, Errno> {
    let of = Of::Shared(fd, offset);
    let both = Protection::READ | Protection::WRITE;
    let mapping = Mapping::new(of, length as usize, both)?;
    let _ = mapping.advise(Advice::DONTDUMP);
    Ok(mapping)
}

/// Sleeps while `*word == expected`, at most 20 ms; also between processes.
pub fn wait(word: &AtomicU32, expected: u32) {
    sync::shared_wait(word, expected, 20_000_000);
}

/// Wakes all who [`wait`] on `word`.
pub fn wake(word: &AtomicU32) {
    sync::shared_wake(word);
}

/// Where the bytes lie that processes lock to show that they live: far beyond any content.
const PROOFS: i64 = 1 << 62;

fn lock_call(fd: impl AsFd, command: LockCommand, slot: u64, kind: u32) -> Result<u32, Errno> {
    let mut lock = linux::flock {
        l_type: kind as i16,
        l_whence: 0,
        l_start: PROOFS + slot as i64,
        l_len: 1,
        l_pid: 0,
    };
    fd::lock(fd, command, &mut lock)?;
    Ok(lock.l_type as u32)
}

/// Takes the proof of life of `slot` for the description `fd` (OFD lock, fcntl(2)): `EAGAIN` while
/// another has it.
pub fn prove(fd: impl AsFd, slot: u64) -> Result<(), Errno> {
    lock_call(fd, LockCommand::OFD_SETLK, slot, linux::F_WRLCK).map(drop)
}

/// Drops the proof of life of `slot` that the description `fd` holds.
pub fn unprove(fd: impl AsFd, slot: u64) {
    // Nothing can be wrong with it: the range is one that `prove` has locked.
    let _ = lock_call(fd, LockCommand::OFD_SETLK, slot, linux::F_UNLCK);
}

/// Whether a description other than `fd` holds the proof of life of `slot`.
pub fn is_proved(fd: impl AsFd, slot: u64) -> bool {
    lock_call(fd, LockCommand::OFD_GETLK, slot, linux::F_WRLCK) != Ok(linux::F_UNLCK)
}

/// Free bytes of the file system that `fd` lies on.
pub fn free_space(fd: impl AsFd) -> Result<u64, Errno> {
    let stat = fs::fstatfs(fd)?;
    Ok((stat.f_bavail as u64).saturating_mul(stat.f_bsize as u64))
}
