//! Locks as the kernel keeps them: on an open file description of one holder's own.
//!
//! A server is one process to the kernel, so the locks of its callers cannot be a process's
//! (`F_SETLK`); those of descriptions (`F_OFD_SETLK`, fcntl(2)) exclude each other, and everybody
//! else's, whoever opened the descriptions.

use crate::handover::identity;
use culvert::{Errno, Error, Lock, LockKind, Result};
use culvert_sys::{
    AsFd, BorrowedFd, OwnedFd,
    fd::{self, Command, LockCommand},
    plain::Plain,
    raw::general::{self as linux, flock},
};
use rustix::fs::{Mode, OFlags};
use std::{fs, os::fd::IntoRawFd};

/// As the kernel has it; `EINVAL`: beyond the largest file.
fn flock_of(lock: &Lock) -> Result<flock> {
    let offset = |at: u64| i64::try_from(at).map_err(|_| Errno::EINVAL);
    let (start, end) = (offset(lock.start)?, offset(lock.end.min(i64::MAX as u64))?);
    let length = match end {
        i64::MAX => 0,
        end => end.checked_sub(start).ok_or(Errno::EINVAL)? + 1,
    };
    let kind = match lock.kind {
        LockKind::Shared => linux::F_RDLCK,
        LockKind::Exclusive => linux::F_WRLCK,
        LockKind::Unlock => linux::F_UNLCK,
    };
    Ok(flock {
        l_type: kind as i16,
        l_start: start,
        l_len: length,
        ..flock::zeroed()
    })
}

/// None: there is none (`F_UNLCK`).
fn lock_of(flock: &flock) -> Option<Lock> {
    let kind = match flock.l_type as u32 {
        linux::F_RDLCK => LockKind::Shared,
        linux::F_WRLCK => LockKind::Exclusive,
        _ => return None,
    };
    let start = flock.l_start.unsigned_abs();
    let end = match flock.l_len {
        0 => i64::MAX as u64,
        length => start + length.unsigned_abs() - 1,
    };
    Some(Lock {
        kind,
        start,
        end,
        pid: u32::try_from(flock.l_pid).unwrap_or(0),
    })
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
        let reads = access_mode(file)? == linux::O_RDONLY;
        let path = format!("/proc/self/fd/{}", file.raw());
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
            fd: OwnedFd::from_raw(fd.into_raw_fd()),
            writable: !reads,
        })
    }

    /// One that an earlier server has left, descriptor `number` of the file `identity`; `EBADF`: it
    /// is not that any more. Nobody else closes the descriptor, if it is that of this file.
    pub fn left(number: i32, file: [u64; 2]) -> Result<Self> {
        let fd = BorrowedFd::number(number);
        if identity(fd) != Some(file) {
            return Err(Errno::EBADF.into());
        }
        let writable = access_mode(fd)? != linux::O_RDONLY;
        let fd = OwnedFd::from_raw(number);
        Ok(Self { fd, writable })
    }

    /// Which file it is of.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Its descriptor, for who comes after this server.
    pub fn number(&self) -> i32 {
        self.fd.raw()
    }

    /// Whether locks of this kind can be on it (fcntl(2): `EBADF`).
    pub const fn can(&self, kind: LockKind) -> bool {
        self.writable || !matches!(kind, LockKind::Exclusive)
    }

    /// `F_OFD_SETLK`; false: somebody else's is in the way.
    pub fn set(&self, lock: &Lock) -> Result<bool> {
        match fd::lock(&self.fd, LockCommand::OFD_SETLK, &mut flock_of(lock)?) {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// `F_OFD_SETLKW`: waits. `EINTR`: a signal came.
    pub fn wait(&self, lock: &Lock) -> std::result::Result<(), Errno> {
        let mut flock = flock_of(lock).map_err(|error| error.errno())?;
        fd::lock(&self.fd, LockCommand::OFD_SETLKW, &mut flock)
    }

    /// What is in the way of `lock`; `pid` 0 if it is a description's.
    pub fn conflict(&self, lock: &Lock) -> Result<Option<Lock>> {
        let mut flock = flock_of(lock)?;
        fd::lock(&self.fd, LockCommand::OFD_GETLK, &mut flock)?;
        Ok(lock_of(&flock))
    }

    /// flock(2); false: somebody else's is in the way.
    pub fn flock(&self, kind: LockKind, waits: bool) -> std::result::Result<bool, Errno> {
        let operation = match kind {
            LockKind::Shared => linux::LOCK_SH,
            LockKind::Exclusive => linux::LOCK_EX,
            LockKind::Unlock => linux::LOCK_UN,
        };
        let operation = operation | if waits { 0 } else { linux::LOCK_NB };
        match fd::flock(&self.fd, operation) {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN) if !waits => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// The record locks that it has: the kernel tells in /proc/self/fdinfo (proc(5)).
    pub fn held(&self) -> Vec<Lock> {
        let path = format!("/proc/self/fdinfo/{}", self.fd.raw());
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

fn access_mode(file: BorrowedFd<'_>) -> Result<u32> {
    let flags = fd::fcntl(file, Command::GETFL, 0)?;
    Ok(flags as u32 & linux::O_ACCMODE)
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
        let file = fd::memfd_create(c"locks", 0).unwrap();
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
        let [file, other] = [(); 2].map(|()| fd::memfd_create(c"left", 0).unwrap());
        let own = identity(file.as_fd()).unwrap();
        let number = file.raw();
        let refused = Description::left(other.raw(), own);
        assert_eq!(refused.unwrap_err().errno(), Errno::EBADF);
        // Not closed either: it is somebody's.
        assert!(identity(other.as_fd()).is_some());
        std::mem::forget(file);
        let left = Description::left(number, own).unwrap();
        assert!(left.can(LockKind::Exclusive));
    }
}
