//! Where the kernel shows the calling thread's own descriptors.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

static THREADS_DIFFER: AtomicBool = AtomicBool::new(false);

/// Some thread of this process has a table of descriptors of its own from here on (unshare(2),
/// `CLONE_FILES`).
pub fn threads_differ() {
    THREADS_DIFFER.store(true, Relaxed);
}

/// The directory of them, with a slash at its end: `/proc/self/fd/` is that of the first thread,
/// and `/proc/thread-self/fd/` costs more steps.
#[inline]
pub fn directory() -> &'static str {
    match THREADS_DIFFER.load(Relaxed) {
        false => "/proc/self/fd/",
        true => "/proc/thread-self/fd/",
    }
}
