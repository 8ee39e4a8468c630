//! The end of a process that cannot go on.

use crate::{process, signal};
use linux_raw_sys::general::{SIG_UNBLOCK, SIGABRT};

/// Ends the process as abort(3) does where nobody handles SIGABRT: with its default action, whether
/// the program handles, ignores or blocks it.
pub fn abort() -> ! {
    let _ = signal::set_default(SIGABRT);
    let _ = process::sigprocmask(SIG_UNBLOCK, 1 << (SIGABRT - 1));
    let _ = process::tgkill(process::getpid(), process::gettid(), SIGABRT);
    process::exit_group(128 + SIGABRT as i32)
}
