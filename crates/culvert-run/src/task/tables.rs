//! Tables of descriptors that are not simply the process's own.
//!
//! Two processes may have one table and no memory in common (clone(2), `CLONE_FILES` without
//! `CLONE_VM`), and a thread may have a table of its own (unshare(2), close_range(2)). Then nothing
//! that this process remembers of a number is sure: another may have closed it, or it is another
//! file for another thread. So from the first such call on *the kernel is asked* at each use what a
//! number stands for (descriptors/kernel_queried.rs), for which no description stays private.

use super::{UNUSUAL, vfork_child};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use culvert_intercept::descriptors as classes;

/// Tables of descriptors that were told apart so far.
static TABLES: AtomicUsize = AtomicUsize::new(0);

/// The number of the process's own.
static TABLE: AtomicUsize = AtomicUsize::new(0);

/// The kernel is asked.
static ASKED: AtomicBool = AtomicBool::new(false);

/// A number that no table had.
pub(super) fn new_number() -> usize {
    TABLES.fetch_add(1, Relaxed) + 1
}

/// The number of the table of descriptors that this thread has: 0, or one never used again for a
/// child of vfork, for a thread with one of its own, and for a process that shares its table with
/// the one that made it (`culvert_drivers::TableNumber`).
pub fn number() -> usize {
    if UNUSUAL.load(Relaxed) == 0 {
        return TABLE.load(Relaxed);
    }
    if let Some(own) = vfork_child().and_then(|child| child.table) {
        return own;
    }
    match culvert_intercept::current().table.load(Relaxed) {
        0 => TABLE.load(Relaxed),
        own => own,
    }
}

/// Whether this thread has the process's table.
pub fn is_process_s() -> bool {
    number() == TABLE.load(Relaxed)
}

/// Whether the kernel is asked what numbers stand for.
#[inline]
pub fn are_asked_for() -> bool {
    UNUSUAL.load(Relaxed) != 0 && ASKED.load(Relaxed)
}

/// It is from here on.
pub fn ask() {
    if !ASKED.swap(true, Relaxed) {
        UNUSUAL.fetch_add(1, Relaxed);
    }
}

/// This thread has a table of its own from here on.
pub fn thread_has_own() {
    culvert_sys::own_descriptors::threads_differ();
    culvert_intercept::current()
        .table
        .store(new_number(), Relaxed);
}

/// This is a new process: its table, as this thread had it, is the process's now. It `shares` it
/// with its parent, or it was one thread's own: then what the drivers keep in another table is not
/// theirs to use.
pub fn forked(shares: bool) -> bool {
    let own = culvert_intercept::current().table.swap(0, Relaxed);
    if shares || own != 0 {
        TABLE.store(new_number(), Relaxed);
    }
    shares || own != 0
}

/// What is known of descriptors is this process's alone from here on.
pub fn separate() {
    if let Err(error) = classes::separate() {
        culvert_sys::log!(
            "descriptors that Culvert holds may be taken for those of another process: {error}"
        );
    }
}

/// Whether the table of descriptors may be one that another thread or process has, too.
pub fn may_share_table() -> bool {
    super::vfork_child_with_table().is_none()
        && (culvert_intercept::multi_threaded() || are_asked_for())
}
