//! Children that have their parent's descriptors.

use rustix::process::Pid;
use std::io;

/// Makes a child with the same table of descriptors, and memory of its own; none in the child.
///
/// # Safety
/// This process has one thread.
pub unsafe fn fork_with_descriptors() -> io::Result<Option<Pid>> {
    use culvert_sys::{nr, raw::general as linux, syscall};
    let flags = (linux::CLONE_FILES | linux::SIGCHLD) as usize;
    // SAFETY: as fork(2): without a stack the child goes on with a copy of this one, and its memory
    // is whole, since there is one thread. That the C library was not told matters only to what
    // asks it for this thread's number, which nothing does.
    match unsafe { syscall::call(nr::CLONE, [flags, 0, 0, 0, 0]) } {
        Ok(child) => Ok(Pid::from_raw(child as i32)),
        Err(error) => Err(io::Error::from_raw_os_error(error.raw())),
    }
}
