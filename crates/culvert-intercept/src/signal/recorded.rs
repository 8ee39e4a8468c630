//! Signals that wait for the end of a hook.

use super::information::Information;
use core::{
    cell::UnsafeCell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// How many signals can come before the first one's return blocks all others: those that were
/// delivered at the same moment.
const CAPACITY: usize = 32;

/// Signals that came while a hook was running.
pub(crate) struct Recorded {
    count: AtomicUsize,
    information: UnsafeCell<[Information; CAPACITY]>,
}

impl Recorded {
    pub(crate) const fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            information: UnsafeCell::new([Information::NONE; CAPACITY]),
        }
    }

    /// Adds one. A handler may be interrupted here by another, which takes the next place and is
    /// done before.
    pub(crate) fn add(&self, information: &Information) {
        let place = self.count.fetch_add(1, Relaxed);
        if place < CAPACITY {
            // SAFETY: the place is this handler's alone.
            unsafe { (*self.information.get())[place] = *information };
        }
    }

    /// Those recorded so far; only while no signal can arrive.
    pub(crate) fn all(&self) -> &[Information] {
        // SAFETY: no handler runs.
        unsafe { &(&*self.information.get())[..self.count.load(Relaxed).min(CAPACITY)] }
    }

    pub(crate) fn forget(&self) {
        self.count.store(0, Relaxed);
    }
}
