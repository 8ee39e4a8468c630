//! Who holds a node that has become a kernel file: asked by drivers that must know whether a file
//! without a name is still in use.

use super::ShadowName;
use crate::files::{self, OwnedFd};
use crate::task::tables;
use core::ffi::CStr;
use culvert::Errno;
use culvert_sys::fd::{Command, fcntl};
use culvert_sys::raw::general::{F_UNLCK, F_WRLCK, O_NONBLOCK, O_WRONLY};

/// Whether any process has the shadow of `name` open or mapped. When in doubt it is held.
pub fn is_held(name: ShadowName) -> bool {
    match alone(name) {
        Ok(file) => {
            super::get().posix_locks.close(name, file);
            false
        }
        Err(error) => error != Errno::ENOENT,
    }
}

/// The shadow of `name`, open for writing, if nobody else has it open or mapped, and a lease on it:
/// who opens it waits. A write lease is granted only where nobody else has it (fcntl(2),
/// F_SETLEASE; `check_conflicting_open`, fs/locks.c). An error: somebody has it; ENOENT: there is
/// none.
pub fn alone(name: ShadowName) -> Result<OwnedFd, Errno> {
    alone_at(name, &super::get().shadow(name))
}

/// The same by another path of it.
pub fn alone_at(name: ShadowName, path: &CStr) -> Result<OwnedFd, Errno> {
    const SIGURG: usize = 23;
    // To close a descriptor of it would drop this process's record locks, which say enough.
    if super::get().posix_locks.are_on(name) {
        return Err(Errno::EAGAIN);
    }
    // Who is killed here leaves the lease to those that share its table of descriptors: they would
    // wait until the kernel breaks it, for 45 s.
    if tables::are_asked_for() {
        return Err(Errno::EAGAIN);
    }
    let file = files::open(path, O_WRONLY | O_NONBLOCK, 0)?;
    // The lease ends with its descriptor. Who opens the shadow meanwhile makes the kernel send a
    // signal, by default SIGIO, which would end the program; SIGURG is ignored by default.
    let leased = fcntl(&file, Command::SETSIG, SIGURG)
        .and_then(|_| fcntl(&file, Command::SETLEASE, F_WRLCK as usize));
    match leased {
        Ok(_) => Ok(file),
        Err(error) => {
            super::get().posix_locks.close(name, file);
            Err(error)
        }
    }
}

/// Ends the lease of [`alone`].
pub fn end_lease(file: &OwnedFd) {
    let _ = fcntl(file, Command::SETLEASE, F_UNLCK as usize);
}
