//! The end of a process that cannot go on.

use crate::{nr, syscall};

const SIGABRT: usize = 6;
const SIG_UNBLOCK: usize = 1;

/// Ends the process as abort(3) does where nobody handles SIGABRT: with its default action, whether
/// the program handles, ignores or blocks it.
pub fn abort() -> ! {
    let default = [0usize; 4];
    let mask = 1u64 << (SIGABRT - 1);
    // SAFETY: action and mask are structures of ours, in the kernel's layout; the signal goes to
    // this thread; exits should that not end it.
    unsafe {
        syscall::raw(
            nr::RT_SIGACTION,
            [SIGABRT, default.as_ptr() as usize, 0, 8, 0, 0],
        );
        syscall::raw(
            nr::RT_SIGPROCMASK,
            [SIG_UNBLOCK, (&raw const mask) as usize, 0, 8, 0, 0],
        );
        let process = syscall::raw(nr::GETPID, [0; 6]) as usize;
        let thread = syscall::raw(nr::GETTID, [0; 6]) as usize;
        syscall::raw(nr::TGKILL, [process, thread, SIGABRT, 0, 0, 0]);
        loop {
            syscall::raw(nr::EXIT_GROUP, [128 + SIGABRT, 0, 0, 0, 0, 0]);
        }
    }
}
