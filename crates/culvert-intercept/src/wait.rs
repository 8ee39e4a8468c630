//! Blocking system calls inside a hook, ended by signals as they would be natively.

use culvert_sys::syscall;

/// A signal for the program is pending: the hook is to end, with [`Outcome::Restart`](crate::Outcome::Restart) or with EINTR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;

/// Executes system call `number`; a signal that the program would see, pending before or arriving during it, ends it.
///
/// No lock may be held: while the thread waits here it counts as outside the hook when another thread forks.
///
/// # Safety
/// As [`syscall::raw`].
pub unsafe fn interruptible(number: usize, args: [usize; 6]) -> Result<isize, Interrupted> {
    // SAFETY: the caller's promise.
    Ok(unsafe { syscall::raw(number, args) })
}
