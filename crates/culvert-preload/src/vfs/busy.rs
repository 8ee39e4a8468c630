//! ETXTBSY: what is being executed is not written, and what is open for writing is not executed
//! (execve(2), open(2)).
//!
//! The kernel keeps both apart for what it executes, the shadow. Who opens a node for writing asks
//! it whether the shadow is executed, if any of the run's processes ever executed one of the node's
//! group. Who executes asks it whether the driver's own file ([`culvert::File::descriptor`]) is
//! open for writing; where there is none, it knows of the shadow those descriptions that processes
//! share, and the driver tells of those that are one process's alone
//! ([`culvert::FileSystem::is_open_for_writing`]).

use crate::process::Process;
use core::sync::atomic::Ordering::*;
use culvert::Errno;
use culvert_run::ShadowName;
use culvert_sys::fd::{Command, fcntl};
use culvert_sys::raw::general::{F_RDLCK, F_UNLCK, O_NONBLOCK, O_WRONLY};
use culvert_sys::{BorrowedFd, nr, syscall};

/// `ETXTBSY` when the shadow of `name` is being executed: the node is not to be opened for writing
/// or truncated.
#[inline]
pub fn may_write(process: &Process, name: ShadowName) -> Result<(), Errno> {
    let group = process.node_locks.mapped(name);
    match group {
        Some(group) if group.executed.load(Acquire) != 0 => ask(process, name),
        _ => Ok(()),
    }
}

#[cold]
fn ask(process: &Process, name: ShadowName) -> Result<(), Errno> {
    let _lock = process.node_locks.lock(name);
    match culvert_run::files::open(&process.run.shadow(name), O_WRONLY | O_NONBLOCK, 0) {
        Ok(opened) => {
            process.run.posix_locks.close(name, opened);
            Ok(())
        }
        Err(Errno::ETXTBSY) => Err(Errno::ETXTBSY),
        // It never had one, or the user may not know any more.
        Err(_) => Ok(()),
    }
}

/// The shadow of `name` is about to be executed: who writes is to ask from now on. Before
/// [`may_execute`].
pub fn announce(process: &Process, name: ShadowName) {
    if let Some(group) = process.node_locks.mapped(name) {
        group.executed.store(1, Release);
    }
}

/// `ETXTBSY` when the file in `fd` is open for writing, where it is not what the kernel is going to
/// execute.
pub fn may_execute(fd: i32) -> Result<(), Errno> {
    const AT_EMPTY_PATH: usize = 0x1000;
    const AT_EXECVE_CHECK: usize = 0x10000;
    if culvert_run::task::is_confined() {
        return Ok(());
    }
    let arguments = [c"x".as_ptr() as usize, 0];
    // SAFETY: nothing is executed: Linux before 6.14 does not know the flag, and says EINVAL.
    let checked = unsafe {
        syscall::call(
            nr::EXECVEAT,
            [
                fd as usize,
                c"".as_ptr() as usize,
                arguments.as_ptr() as usize,
                arguments[1..].as_ptr() as usize,
                AT_EMPTY_PATH | AT_EXECVE_CHECK,
            ],
        )
    };
    match checked {
        Err(Errno::ETXTBSY) => Err(Errno::ETXTBSY),
        Err(Errno::EINVAL) if lease_is_refused(fd) => Err(Errno::ETXTBSY),
        _ => Ok(()),
    }
}

/// A lease for reading is refused where the file is open for writing (fcntl(2), F_SETLEASE); only
/// its owner may ask.
fn lease_is_refused(fd: i32) -> bool {
    const SIGURG: usize = 23;
    let fcntl = |command, argument| fcntl(BorrowedFd::number(fd), command, argument);
    // Who opens the file meanwhile makes the kernel send a signal, which is to be one that is
    // ignored by default.
    let _ = fcntl(Command::SETSIG, SIGURG);
    let refused = fcntl(Command::SETLEASE, F_RDLCK as usize) == Err(Errno::EAGAIN);
    let _ = fcntl(Command::SETLEASE, F_UNLCK as usize);
    refused
}
