//! SIGSEGV, SIGBUS and SIGILL, which a thread has blocked but the kernel has not.

use super::information::{Information, Place};
use super::{SIGBUS, SIGILL};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a thread has blocked of the needed signals, and those of them that were sent meanwhile.
pub(crate) struct Needed {
    blocked: AtomicU64,
    kept: [Place; 3],
}

impl Needed {
    /// For a new thread: the mask is inherited, pending signals are not.
    pub(crate) fn inherit(&self, blocked: u64) {
        self.kept.iter().for_each(Place::clear);
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
        let place = self.place(information.signal());
        if place.get().is_none() {
            place.put(information);
        }
    }

    /// What was kept of `signal`. Only by the thread itself, in a hook.
    pub(crate) fn take(&self, signal: usize) -> Option<Information> {
        let place = self.place(signal);
        let kept = place.get();
        place.clear();
        kept
    }

    fn place(&self, signal: usize) -> &Place {
        match signal {
            SIGILL => &self.kept[0],
            SIGBUS => &self.kept[1],
            _ => &self.kept[2],
        }
    }
}
