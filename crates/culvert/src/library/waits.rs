//! What a library is given to wait and to tell by, as Rust has it: of the functions for poll(2),
//! locks and changes by others.

use super::abi::{self, Observer};
use crate::path::{PathChange, PathObserver};
use alloc::{sync::Arc, task::Wake, vec::Vec};
use core::ffi::{CStr, c_int};
use core::task::Waker;

/// A waker of C's, which goes with the last copy.
struct Kept(*mut abi::Waker);

// SAFETY: the header: its functions are called by any thread.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl Wake for Kept {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // SAFETY: it is there until it is dropped, below.
        unsafe { ((*self.0).wake)(self.0) };
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: as above, and this is the end of it.
        unsafe { ((*self.0).drop)(self.0) };
    }
}

/// Who waits, if that is anybody.
///
/// # Safety
/// Null, or the caller's own as the header has it.
pub(super) unsafe fn waker(waker: *mut abi::Waker) -> Option<Waker> {
    (!waker.is_null()).then(|| Waker::from(Arc::new(Kept(waker))))
}

/// How long a lock is waited for.
pub(super) struct Waits(*const abi::Wait);

// SAFETY: the header: it is asked by whoever waits.
unsafe impl Sync for Waits {}

impl Waits {
    /// # Safety
    /// Null, or one that lives as long as this.
    pub(super) const unsafe fn new(wait: *const abi::Wait) -> Option<Self> {
        match wait.is_null() {
            true => None,
            false => Some(Self(wait)),
        }
    }

    /// Whether the waiter was interrupted.
    pub(super) fn is_over(&self) -> bool {
        // SAFETY: the promise of `new`.
        unsafe { ((*self.0).interrupted)(self.0) != 0 }
    }
}

/// Whom a driver tells of changes.
pub(super) struct Observed(*const Observer);

// SAFETY: the header: any thread tells.
unsafe impl Send for Observed {}
// SAFETY: as above.
unsafe impl Sync for Observed {}

impl Observed {
    /// # Safety
    /// It is there until `finalize` has returned, behind which the driver is not.
    pub(super) const unsafe fn new(observer: *const Observer) -> Self {
        Self(observer)
    }
}

impl PathObserver for Observed {
    fn tell(&self, change: PathChange<'_>) {
        let (what, path) = match change {
            PathChange::Everything => (abi::EVERYTHING, &[][..]),
            PathChange::Name(path) => (abi::NAME, path),
            PathChange::Attributes(path) => (abi::ATTRIBUTES, path),
            PathChange::Content(path) => (abi::CONTENT, path),
        };
        let path: Vec<u8> = path.iter().copied().chain([0]).collect();
        // A path with a NUL within is none of a file.
        if let Ok(path) = CStr::from_bytes_with_nul(&path) {
            // SAFETY: the promise of `new`, and a string.
            unsafe { ((*self.0).tell)(self.0, what, path.as_ptr()) };
        }
    }
}

/// The change that `what` and `path` say; none: there is no such change.
pub fn change(what: c_int, path: &[u8]) -> Option<PathChange<'_>> {
    Some(match what {
        abi::EVERYTHING => PathChange::Everything,
        abi::NAME => PathChange::Name(path),
        abi::ATTRIBUTES => PathChange::Attributes(path),
        abi::CONTENT => PathChange::Content(path),
        _ => return None,
    })
}
