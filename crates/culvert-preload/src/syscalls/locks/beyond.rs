//! Record locks that exclude other runs, kernel mounts and hosts: on a file that stands for them
//! ([`culvert::File::lock_file`]), and on the shadow.
//!
//! The kernel keeps both as this process's, so that who waits finds deadlocks, what a killed
//! process held is free, and a forked child has none. The file comes first, and waiting for it
//! holds nothing new; the shadow, which programs without the library lock too, is unlocked first.
//! So whoever has the shadow has the file, and between processes with the library the file alone
//! decides. A wait that a signal ends, or that the shadow refuses, gives back what it has got.

use crate::answer::RESTART;
use crate::description::{Held, Object, kernel_seek, may_read, may_write, report};
use crate::process::Process;
use alloc::sync::Arc;
use culvert::Errno;
use culvert_intercept::wait;
use culvert_run::lock_files::LockFile;
use culvert_sys::BorrowedFd;
use culvert_sys::fd::{self, LockCommand};
use culvert_sys::plain::Plain;
use culvert_sys::raw::general::{F_RDLCK, F_UNLCK, F_WRLCK, flock};

/// `F_GETLK`, `F_SETLK` and `F_SETLKW` by `fd`, a descriptor of the shadow of `held`.
pub fn record(
    process: &Process,
    held: &Held,
    fd: i32,
    command: LockCommand,
    lock: &mut flock,
) -> Result<usize, Errno> {
    let on_shadow = |lock: &mut flock| wait::lock(BorrowedFd::number(fd), command, lock);
    let asks = command == LockCommand::GETLK;
    let unlocks = !asks && lock.l_type == F_UNLCK as i16;
    if !asks && lock.l_type != F_WRLCK as i16
        && let Object::File(driven) = &held.object
        // Nobody has locked through it where it is not open.
        && let Some(file) = process.run.posix_locks.files.get(held.name())
    {
        if let Err(error) = driven.before_unlock() {
            report(held, "unlock", &error);
        }
        if unlocks {
            let mut beyond = there(fd, lock)?;
            let answer = on_shadow(lock)?;
            fd::lock(number(&file), LockCommand::SETLK, &mut beyond)?;
            return Ok(answer);
        }
    }
    if unlocks {
        return on_shadow(lock);
    }
    // The kernel would compare with the mode of the file that stands for the locks alone.
    let may = asks || {
        let flags = held.flags(fd)?;
        match u32::try_from(lock.l_type) {
            Ok(F_RDLCK) => may_read(flags),
            Ok(F_WRLCK) => may_write(flags),
            _ => false,
        }
    };
    if !may {
        // It is refused there, for whichever reason comes first.
        return on_shadow(lock).and(Err(Errno::EBADF));
    }
    loop {
        let Some(file) = file_of(process, held, !asks)? else {
            return on_shadow(lock);
        };
        let mut beyond = there(fd, lock)?;
        if asks {
            wait::lock(number(&file), command, &mut beyond)?;
            return match beyond.l_type == F_UNLCK as i16 {
                true => on_shadow(lock),
                false => {
                    *lock = beyond;
                    Ok(0)
                }
            };
        }
        match wait::lock(number(&file), command, &mut beyond) {
            // Another thread has closed a descriptor of the program's meanwhile, and so the file.
            Err(Errno::EBADF) if !is_open(process, held, &file) => continue,
            // The mode of the file lets this process not lock so.
            Err(Errno::EBADF) => return Err(Errno::ENOLCK),
            result => result?,
        };
        let answer = on_shadow(lock).inspect_err(|_| give_back(fd, &file, &beyond))?;
        if is_open(process, held, &file) {
            if let Object::File(driven) = &held.object {
                driven.locked();
            }
            return Ok(answer);
        }
    }
}

/// The file that stands for the locks of `held`.
fn file_of(process: &Process, held: &Held, make: bool) -> Result<Option<Arc<LockFile>>, Errno> {
    let Object::File(file) = &held.object else {
        return Ok(None);
    };
    if held.is_direct() {
        return Ok(None);
    }
    let files = &process.run.posix_locks.files;
    let found = files.get_or(held.name(), || file.lock_file(make));
    found.map_err(|error| match report(held, "lock", &error) {
        RESTART => RESTART,
        _ => Errno::ENOLCK,
    })
}

fn is_open(process: &Process, held: &Held, file: &Arc<LockFile>) -> bool {
    let now = process.run.posix_locks.files.get(held.name());
    now.is_some_and(|now| Arc::ptr_eq(&now, file))
}

fn number(file: &LockFile) -> BorrowedFd<'_> {
    BorrowedFd::number(file.raw())
}

/// `lock`, as the program gave it for `fd`, on a descriptor whose offset is 0.
fn there(fd: i32, lock: &flock) -> Result<flock, Errno> {
    const SEEK_CUR: i16 = 1;
    let mut there = *lock;
    if lock.l_whence == SEEK_CUR {
        let at = kernel_seek(fd, 0, SEEK_CUR as usize)?;
        there.l_start = lock
            .l_start
            .checked_add(at as i64)
            .ok_or(Errno::EOVERFLOW)?;
        there.l_whence = 0;
    }
    Ok(there)
}

/// After the shadow has refused `lock`, which `file` has: what this process does not have of it on
/// the shadow of `fd` goes. Where several have a shared lock, this one among them or not, it keeps
/// it, until it unlocks or closes the file.
fn give_back(fd: i32, file: &LockFile, lock: &flock) {
    let (start, last) = match lock.l_len {
        0 => (lock.l_start, i64::MAX),
        length @ 1.. => (lock.l_start, lock.l_start.saturating_add(length - 1)),
        length => (lock.l_start.saturating_add(length), lock.l_start - 1),
    };
    let mut from = start;
    while from <= last {
        // As of a stranger: the kernel tells of this process's own locks too.
        let mut found = range(F_WRLCK, from, last);
        let asked = fd::lock(BorrowedFd::number(fd), LockCommand::OFD_GETLK, &mut found);
        if asked.is_err() || found.l_type == F_UNLCK as i16 {
            set(file, F_UNLCK, from, last);
            return;
        }
        // It need not be the first one in the range.
        let begins = found.l_start.max(from);
        if begins > from {
            give_back(fd, file, &range(F_WRLCK, from, begins - 1));
        }
        let ends = match found.l_len {
            0 => last,
            length => found.l_start.saturating_add(length - 1).min(last),
        };
        let own = found.l_pid == culvert_sys::process::getpid() as i32;
        let kind = match u32::try_from(found.l_type) {
            Ok(kind) if own || kind == F_RDLCK => kind,
            _ => F_UNLCK,
        };
        set(file, kind, begins, ends);
        let Some(next) = ends.checked_add(1) else {
            return;
        };
        from = next;
    }
}

fn set(file: &LockFile, kind: u32, start: i64, last: i64) {
    let mut lock = range(kind, start, last);
    let _ = fd::lock(number(file), LockCommand::SETLK, &mut lock);
}

fn range(kind: u32, start: i64, last: i64) -> flock {
    flock {
        l_type: kind as i16,
        l_start: start,
        l_len: match last {
            i64::MAX => 0,
            last => last - start + 1,
        },
        ..flock::zeroed()
    }
}
