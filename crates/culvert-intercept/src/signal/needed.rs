//! SIGSEGV, SIGBUS and SIGILL, which a thread has blocked but the kernel has not.

use super::{SIGBUS, SIGILL, information::Information};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a thread has blocked of the needed signals, and those of them that were sent meanwhile.
pub(crate) struct Needed {
    blocked: AtomicU64,
    kept: UnsafeCell<[Option<Information>; 3]>,
}

impl Needed {
    pub(crate) const fn new() -> Self {
        Self {
            blocked: AtomicU64::new(0),
            kept: UnsafeCell::new([None; 3]),
        }
    }

    /// For a new thread: the mask is inherited, pending signals are not.
    pub(crate) fn inherit(&self, blocked: u64) {
        // SAFETY: the block's thread does not run yet.
        unsafe { *self.kept.get() = [None; 3] };
        self.set_blocked(blocked);
    }

    pub(crate) fn blocked(&self) -> u64 {
        self.blocked.load(Relaxed)
    }

    /// Only by the thread itself, in a hook.
    pub(crate) fn set_blocked(&self, blocked: u64) {
        self.blocked.store(blocked, Relaxed);
    }

    /// One that was sent while it is blocked: the first of each. Only by the thread itself, in its
    /// signal handler outside hooks.
    pub(crate) fn keep(&self, information: &Information) {
        // SAFETY: the thread's own, which is nowhere else in here.
        unsafe {
            (*self.kept.get())[place(information.signal as usize)].get_or_insert(*information)
        };
    }

    /// What was kept of `signal`. Only by the thread itself, in a hook.
    pub(crate) fn take(&self, signal: usize) -> Option<Information> {
        // SAFETY: as `keep`.
        unsafe { (*self.kept.get())[place(signal)].take() }
    }
}

fn place(signal: usize) -> usize {
    match signal {
        SIGILL => 0,
        SIGBUS => 1,
        _ => 2,
    }
}
