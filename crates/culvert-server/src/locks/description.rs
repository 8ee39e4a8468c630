//! Locks as the kernel keeps them: on an open file description of one holder's own.
//!
//! A server is one process to the kernel, so the locks of its callers cannot be a process's
//! (`F_SETLK`); those of descriptions (`F_OFD_SETLK`, fcntl(2)) exclude each other, and everybody
//! else's, whoever opened the descriptions.

use crate::handover::identity;
use culvert::{Errno, Error, Lock, LockKind, Result};
use culvert_sys::{nr, syscall};
use rustix::fs::{Mode, OFlags};
use std::{
    fs,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

const F_GETFL: usize = 3;
const F_OFD_GETLK: usize = 36;
const F_OFD_SETLK: usize = 37;
const F_OFD_SETLKW: usize = 38;
const LOCK_NB: usize = 4;
const O_ACCMODE: usize = 3;
const O_RDONLY: usize = 0;

/// `struct flock`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Flock {
    kind: i16,
    whence: i16,
    start: i64,
    length: i64,
    pid: i32,
}

impl Flock {
    /// `EINVAL`: beyond the largest file.
    fn of(lock: &Lock) -> Result<Self> {
        let offset = |at: u64| i64::try_from(at).map_err(|_| Errno::EINVAL);
        let (start, end) = (offset(lock.start)?, offset(lock.end.min(i64::MAX as u64))?);
        let length = match end {
            i64::MAX => 0,
            end => end.checked_sub(start).ok_or(Errno::EINVAL)? + 1,
        };
        let kind = match lock.kind {
            LockKind::Shared => 0,
            LockKind::Exclusive => 1,
            LockKind::Unlock => 2,
        };
        Ok(Self {
            kind,
            start,
            length,
            ..Self::default()
        })
    }

    /// None: there is none (`F_UNLCK`).
    fn lock(&self) -> Option<Lock> {
        let kind = match self.kind {
            0 => LockKind::Shared,
            1 => LockKind::Exclusive,
            _ => return None,
        };
        let start = self.start.unsigned_abs();
        let end = match self.length {
            0 => i64::MAX as u64,
            length => start + length.unsigned_abs() - 1,
        };
        Some(Lock {
            kind,
            start,
            end,
            pid: u32::try_from(self.pid).unwrap_or(0),
        })
    }
}

/// What is opened for one holder, who then has its locks.
#[derive(Debug)]
pub struct Description {
    fd: OwnedFd,
    writable: bool,
}

impl Description {
    /// The file that is open in `file`, opened anew: for reading alone if that is, else for both if
    /// the server may. To be called with the server's own rights.
    pub fn of(file: BorrowedFd<'_>) -> Result<Self> {
        let reads = access_mode(file)? == O_RDONLY;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let open = |flags| rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty());
        let opened = match reads {
            true => open(OFlags::RDONLY),
            false => open(OFlags::RDWR).or_else(|_| open(OFlags::WRONLY)),
        };
        let fd = opened.map_err(|error| {
            let cause = format!("the file cannot be opened again to keep its locks: {error}");
            Error::because(Errno::ENOLCK, cause)
        })?;
        Ok(Self {
            fd,
            writable: !reads,
        })
    }

    /// One that an earlier server has left, descriptor `number` of the file `identity`; `EBADF`: it
    /// is not that any more.
    ///
    /// # Safety
    /// Nobody else has the descriptor, if it is that of this file.
    pub unsafe fn left(number: i32, file: [u64; 2]) -> Result<Self> {
        // SAFETY: looked at only in this function.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        if identity(fd) != Some(file) {
            return Err(Errno::EBADF.into());
        }
        let writable = access_mode(fd)? != O_RDONLY;
        // SAFETY: it is open, and the caller's promise.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Self { fd, writable })
    }

    /// Which file it is of.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Its descriptor, for who comes after this server.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    /// Whether locks of this kind can be on it (fcntl(2): `EBADF`).
    pub const fn can(&self, kind: LockKind) -> bool {
        self.writable || !matches!(kind, LockKind::Exclusive)
    }

    fn control(&self, command: usize, flock: &mut Flock) -> std::result::Result<(), Errno> {
        let arguments = [
            self.fd.as_raw_fd() as usize,
            command,
            (&raw mut *flock) as usize,
        ];
        // SAFETY: the structure is the kernel's, and outlives the call.
        unsafe { syscall::call(nr::FCNTL, arguments) }.map(drop)
    }

    /// `F_OFD_SETLK`; false: somebody else's is in the way.
    pub fn set(&self, lock: &Lock) -> Result<bool> {
        match self.control(F_OFD_SETLK, &mut Flock::of(lock)?) {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// `F_OFD_SETLKW`: waits. `EINTR`: a signal came.
    pub fn wait(&self, lock: &Lock) -> std::result::Result<(), Errno> {
        let mut flock = Flock::of(lock).map_err(|error| error.errno())?;
        self.control(F_OFD_SETLKW, &mut flock)
    }

    /// What is in the way of `lock`; `pid` 0 if it is a description's.
    pub fn conflict(&self, lock: &Lock) -> Result<Option<Lock>> {
        let mut flock = Flock::of(lock)?;
        self.control(F_OFD_GETLK, &mut flock)?;
        Ok(flock.lock())
    }

    /// flock(2); false: somebody else's is in the way.
    pub fn flock(&self, kind: LockKind, waits: bool) -> std::result::Result<bool, Errno> {
        let operation = match kind {
            LockKind::Shared => 1,
            LockKind::Exclusive => 2,
            LockKind::Unlock => 8,
        };
        let operation = operation | if waits { 0 } else { LOCK_NB };
        let arguments = [self.fd.as_raw_fd() as usize, operation];
        // SAFETY: touches no memory.
        match unsafe { syscall::call(nr::FLOCK, arguments) } {
            Ok(_) => Ok(true),
            Err(Errno::EAGAIN) if !waits => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// The record locks that it has: the kernel tells in /proc/self/fdinfo (proc(5)).
    pub fn held(&self) -> Vec<Lock> {
        let path = format!("/proc/self/fdinfo/{}", self.fd.as_raw_fd());
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(held_in).collect()
    }
}

/// A line of fdinfo: `lock: 1: OFDLCK ADVISORY WRITE -1 fe:00:4711 0 EOF`.
fn held_in(line: &str) -> Option<Lock> {
    let words: Vec<&str> = line.strip_prefix("lock:")?.split_whitespace().collect();
    let [_, "OFDLCK", _, kind, _, _, start, end] = words[..] else {
        return None;
    };
    Some(Lock {
        kind: match kind {
            "READ" => LockKind::Shared,
            "WRITE" => LockKind::Exclusive,
            _ => return None,
        },
        start: start.parse().ok()?,
        end: match end {
            "EOF" => i64::MAX as u64,
            end => end.parse().ok()?,
        },
        pid: 0,
    })
}

fn access_mode(file: BorrowedFd<'_>) -> Result<usize> {
    // SAFETY: only asks for flags.
    let flags = unsafe { syscall::call(nr::FCNTL, [file.as_raw_fd() as usize, F_GETFL]) }?;
    Ok(flags & O_ACCMODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(kind: LockKind, start: u64, end: u64) -> Lock {
        let pid = 0;
        Lock {
            kind,
            start,
            end,
            pid,
        }
    }

    const END: u64 = i64::MAX as u64;

    #[test]
    fn holders_exclude_each_other_and_are_told_apart() {
        let file = rustix::fs::memfd_create("locks", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let [one, two] = [(); 2].map(|()| Description::of(file.as_fd()).unwrap());
        let first = lock(LockKind::Exclusive, 0, 9);
        let second = lock(LockKind::Shared, 20, END);
        assert!(one.set(&first).unwrap() && one.set(&second).unwrap());
        assert_eq!(one.held(), [first, second]);
        assert!(two.held().is_empty());
        assert!(!two.set(&lock(LockKind::Exclusive, 5, 5)).unwrap());
        assert!(two.set(&lock(LockKind::Shared, 30, 40)).unwrap());
        let whole = lock(LockKind::Exclusive, 0, END);
        assert_eq!(two.conflict(&whole).unwrap(), Some(first));
        assert!(one.set(&lock(LockKind::Unlock, 0, END)).unwrap());
        assert_eq!(two.conflict(&whole).unwrap(), None);
        assert_eq!(two.flock(LockKind::Exclusive, false), Ok(true));
        assert_eq!(one.flock(LockKind::Shared, false), Ok(false));
        drop(two);
        assert_eq!(one.flock(LockKind::Shared, false), Ok(true));
    }

    #[test]
    fn what_is_left_is_known_by_its_file() {
        let [file, other] = [(); 2]
            .map(|()| rustix::fs::memfd_create("left", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        let own = identity(file.as_fd()).unwrap();
        let number = file.as_raw_fd();
        // SAFETY: refused, so that nobody else has it.
        let refused = unsafe { Description::left(other.as_raw_fd(), own) };
        assert_eq!(refused.unwrap_err().errno(), Errno::EBADF);
        // Not closed either: it is somebody's.
        assert!(identity(other.as_fd()).is_some());
        std::mem::forget(file);
        // SAFETY: given away by the line above.
        let left = unsafe { Description::left(number, own) }.unwrap();
        assert!(left.can(LockKind::Exclusive));
    }
}
