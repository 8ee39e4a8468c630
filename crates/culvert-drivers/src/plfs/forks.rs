//! Whether what was opened is this process's own.

use core::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// How often this process, or an ancestor, was made by fork: what was opened before belongs to the
/// parent.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// See [`FORKS`].
pub fn forks() -> u32 {
    FORKS.load(SeqCst)
}

/// This process is the child.
pub fn forked() {
    FORKS.fetch_add(1, SeqCst);
}
