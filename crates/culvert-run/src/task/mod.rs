//! What the kernel keeps of a process and its threads and Culvert has to know: credentials, limits,
//! tables of descriptors, children of vfork, filters. All of it is one per process, so it stands in
//! statics, below everything else.

pub mod credentials;
pub mod helper;
pub mod limits;
pub mod tables;
pub mod vfork;

pub use credentials::{as_itself, as_real_user, caller, process_number};
pub use vfork::{VforkChild, vfork_child, vfork_child_with_table};

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};

/// Children of vfork, and one more once tables of descriptors are not what they usually are
/// ([`tables`]).
static UNUSUAL: AtomicUsize = AtomicUsize::new(0);
/// Calls that have confined it, and one more for each that is under way.
static CONFINED: AtomicUsize = AtomicUsize::new(0);
static LEFT: AtomicBool = AtomicBool::new(false);
/// This process, 0 before it was asked for.
static PID: AtomicU32 = AtomicU32::new(0);

/// This is a new process.
pub fn forget_pid() {
    PID.store(0, Relaxed);
    credentials::are_others();
}

/// Whether any vfork child shares this memory now, or the kernel is asked what numbers stand for
/// ([`tables`]).
#[inline]
pub fn tables_differ() -> bool {
    UNUSUAL.load(Relaxed) != 0
}

/// Whether the program has installed a seccomp filter, or is about to: any call that it does not
/// make itself may be fatal.
#[inline]
pub fn is_confined() -> bool {
    CONFINED.load(Relaxed) != 0
}

/// A filter is about to be installed.
pub fn confine() {
    CONFINED.fetch_add(1, AcqRel);
}

/// None was after [`confine`].
pub fn is_not_confined() {
    CONFINED.fetch_sub(1, AcqRel);
}

/// The mounts cannot be reached any more (chroot): paths are the kernel's alone.
pub fn leave() {
    LEFT.store(true, Relaxed);
}

/// Whether that has happened.
pub fn has_left() -> bool {
    LEFT.load(Relaxed)
}
