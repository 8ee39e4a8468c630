//! A clone that the thread is about, as it stands in the thread's block.

use super::frame::{Frame, Word};
use crate::{CloneFlags, seccomp, signal::actions::Actions};
use culvert_sys::sync::AtomicRef;

/// In [`Frame::child`]: the rest is not a block but the address where the child goes on without
/// one.
pub(crate) const NO_BLOCK: usize = 1 << 63;

/// A clone between its two halves.
pub(crate) struct InProgress {
    pub flags: Word,
    /// Not 0: others are kept out of hooks.
    pub exclusive: Word,
    /// What the vforks in progress have put aside, the innermost first.
    pub kept: AtomicRef<Kept>,
    /// Memory for the next one.
    pub spare: AtomicRef<Kept>,
}

impl InProgress {
    pub(crate) fn flags(&self) -> CloneFlags {
        CloneFlags(self.flags.get() as u64)
    }
}

/// What a vfork child overwrites in the block that it shares with its parent. All zeroes: nothing.
pub(crate) struct Kept {
    pub previous: AtomicRef<Kept>,
    pub frame: Frame,
    /// Of the frame, [`Frame::pending`].
    pub pending: Word,
    pub flags: Word,
    pub blocked: Word,
    pub filters: seccomp::Chain,
    /// The parent's actions.
    pub actions: AtomicRef<Actions>,
    /// The child's.
    pub own: Actions,
}
