//! A clone that the thread is about, as it stands in the thread's block.

use super::frame::Frame;
use crate::{CloneFlags, seccomp::Filter, signal::actions::Actions};
use core::ptr::null_mut;

/// In [`Frame::child`]: the rest is not a block but the address where the child goes on without
/// one.
pub(crate) const NO_BLOCK: usize = 1 << 63;

/// A clone between its two halves.
pub(crate) struct InProgress {
    pub flags: CloneFlags,
    /// Whether others are kept out of hooks.
    pub exclusive: bool,
    /// What the vforks in progress have put aside, the innermost first.
    pub kept: *mut Kept,
    /// Memory for the next one.
    pub spare: *mut Kept,
}

impl InProgress {
    pub(crate) const NONE: Self = Self {
        flags: CloneFlags(0),
        exclusive: false,
        kept: null_mut(),
        spare: null_mut(),
    };
}

/// What a vfork child overwrites in the block that it shares with its parent.
pub(crate) struct Kept {
    pub previous: *mut Kept,
    pub frame: Frame,
    pub flags: CloneFlags,
    pub blocked: u64,
    pub filters: *mut Filter,
    /// The parent's actions.
    pub actions: *mut Actions,
    /// The child's.
    pub own: Actions,
}
