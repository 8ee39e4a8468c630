//! Locks and leases: the kernel keeps them, on the shadow or on the file itself, and record locks
//! of processes also where a driver has a file that stands for them (`beyond`).

mod beyond;

use super::arguments::kernel_has_not;
use crate::answer::{Answer, FORWARD};
use crate::description::{Held, Object, report};
use crate::process::Process;
use culvert::Errno;
use culvert_intercept::wait;
use culvert_intercept::{Call, user};
use culvert_sys::BorrowedFd;
use culvert_sys::fd::LockCommand;
use culvert_sys::raw::general::{self, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
pub use culvert_sys::raw::general::{
    F_GETLEASE, F_GETLK, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_SETLK, F_SETLKW,
};

const F_UNLCK: i16 = 2;

/// `F_GETLK`, `F_SETLK`, `F_SETLKW` and those of open file descriptions.
pub fn record(process: &Process, held: &Held, fd: i32, command: u32, argument: usize) -> Answer {
    let mut lock: general::flock = user::read(argument).map_err(|_| Errno::EFAULT)?;
    let table = &process.table;
    table.promote(fd)?;
    const SEEK_SET: i16 = 0;
    const SEEK_END: i16 = 2;
    // The offset is the shadow's too, its length is not the file's.
    if lock.l_whence == SEEK_END && !held.is_direct() {
        let size = match &held.object {
            Object::File(_) | Object::Directory | Object::Broken => {
                held.attributes()
                    .map_err(|error| report(held, "lock", &error))?
                    .size
            }
            _ => 0,
        };
        lock.l_start = lock
            .l_start
            .checked_add_unsigned(size)
            .ok_or(Errno::EOVERFLOW)?;
        lock.l_whence = SEEK_SET;
    }
    let sets = matches!(command, F_SETLK | F_SETLKW) && lock.l_type != F_UNLCK;
    // Before it is there, or another thread could close a descriptor of Culvert's in between.
    if sets {
        process
            .run
            .posix_locks
            .note(held.name(), held.own_file(), fd);
    }
    let asked = LockCommand::new(command).ok_or(Errno::EINVAL)?;
    let answer = match command {
        F_GETLK | F_SETLK | F_SETLKW => beyond::record(process, held, fd, asked, &mut lock)?,
        _ => wait::lock(BorrowedFd::number(fd), asked, &mut lock)?,
    };
    match command {
        F_GETLK | F_OFD_GETLK if lock.l_type == F_UNLCK => {
            // The rest of the structure stays as it was (fcntl(2)).
            user::write(argument, &lock.l_type).map_err(|_| Errno::EFAULT)?;
        }
        F_GETLK | F_OFD_GETLK => user::write(argument, &lock).map_err(|_| Errno::EFAULT)?,
        // Once more: another thread may have closed a descriptor of the file's meanwhile.
        F_SETLK | F_SETLKW if sets => {
            process
                .run
                .posix_locks
                .note(held.name(), held.own_file(), fd)
        }
        _ => {}
    }
    Ok(answer)
}

/// A lease would have to be broken by opens that the kernel does not see: EINVAL, as on file
/// systems without leases (`simple_nosetlease`, fs/libfs.c). Where it sees them, the kernel keeps
/// the lease.
pub fn lease(process: &Process, fd: usize, command: u32) -> Answer {
    match kernel_has_not(process, fd) {
        None => Err(FORWARD),
        Some(_) if command == F_GETLEASE => Ok(F_UNLCK as usize),
        Some(_) => Err(Errno::EINVAL),
    }
}

/// flock(2): of the description, kept by the kernel.
pub fn flock(process: &Process, call: &mut Call) -> Answer {
    let fd = call.args[0] as i32;
    let held = super::arguments::descriptor(process, call.args[0]).ok_or(FORWARD)?;
    if matches!(held.object, Object::Path) {
        return match call.args[1] as u32 & !LOCK_NB {
            LOCK_SH | LOCK_EX | LOCK_UN => Err(Errno::EBADF),
            _ => Err(Errno::EINVAL),
        };
    }
    if held.is_backed() {
        return Err(FORWARD);
    }
    process.table.promote(fd).and(Err(FORWARD))
}
