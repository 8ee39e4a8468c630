//! Signals that wait for the end of a hook.

use super::information::{Information, Place};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many signals can come before the first one's return blocks all others: those that were
/// delivered at the same moment.
const CAPACITY: usize = 32;

/// Signals that came while a hook was running. The number, which each new thread writes, first: it
/// is in the page of what a block has before (`ThreadBlock`).
#[repr(C)]
pub(crate) struct Recorded {
    count: AtomicUsize,
    places: [Place; CAPACITY],
}

impl Recorded {
    /// Adds one. A handler may be interrupted here by another, which takes the next place and is
    /// done before.
    pub(crate) fn add(&self, information: &Information) {
        let place = self.count.fetch_add(1, Relaxed);
        if let Some(place) = self.places.get(place) {
            place.put(information);
        }
    }

    /// Those recorded so far; only while no signal can arrive.
    pub(crate) fn all(&self) -> impl Iterator<Item = Information> {
        let places = self.places.iter().take(self.count.load(Relaxed));
        places.filter_map(Place::get)
    }

    pub(crate) fn forget(&self) {
        self.count.store(0, Relaxed);
    }
}
