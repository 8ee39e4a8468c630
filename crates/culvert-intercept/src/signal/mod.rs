//! What a thread and a process have of signals: actions, masks, what is pending. How signals are
//! kept away from hooks is in `delivery`.

pub(crate) mod actions;
pub(crate) mod information;
pub(crate) mod needed;
pub(crate) mod recorded;

use culvert_sys::{process, signal};
use information::Information;

pub(crate) const SIGILL: usize = 4;
pub(crate) const SIGTRAP: usize = 5;
pub(crate) const SIGBUS: usize = 7;
pub(crate) const SIGFPE: usize = 8;
pub(crate) const SIGKILL: usize = 9;
pub(crate) const SIGSEGV: usize = 11;
pub(crate) const SIGSTOP: usize = 19;
pub(crate) const SIGSYS: usize = 31;

pub(crate) const SIG_BLOCK: u32 = 0;
pub(crate) const SIG_UNBLOCK: u32 = 1;
pub(crate) const SIG_SETMASK: u32 = 2;

/// The bit of a signal in a mask.
pub(crate) const fn bit(signal: usize) -> u64 {
    1 << (signal - 1)
}

/// Signals that the engine itself needs, which are never blocked in the kernel.
pub(crate) const NEEDED: u64 = bit(SIGILL) | bit(SIGBUS) | bit(SIGSEGV);

/// Everything but the signals that instructions raise.
pub(crate) const ASYNCHRONOUS: u64 = !(NEEDED | bit(SIGTRAP) | bit(SIGFPE) | bit(SIGSYS));

/// Sends this thread the signal with the information it came with.
pub(crate) fn raise(information: &Information) {
    let (process, thread) = (process::getpid(), process::gettid());
    let signal = information.signal() as u32;
    // A thread may send itself any code (`do_rt_tgsigqueueinfo`).
    if signal::queue(process, thread, signal, &information.0).is_err() {
        let _ = process::tgkill(process, thread, signal);
    }
}

/// Sets this thread's mask in the kernel and returns the former.
pub(crate) fn set_mask(mask: u64) -> u64 {
    process::sigprocmask(SIG_SETMASK, mask).unwrap_or(0)
}
