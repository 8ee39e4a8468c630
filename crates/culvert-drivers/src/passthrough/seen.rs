//! What is known of a node that is known by its name alone (`named`).

use super::closed::birth;
use super::file::Held;
use super::kernel::identity;
use alloc::sync::Arc;
use culvert::FileKind;
use culvert_sys::raw::general::statx;

/// What is known of a node that has no descriptor of its own.
pub(super) struct Seen {
    /// `st_dev` and `st_ino`.
    pub identity: (u64, u64),
    /// When the inode was made: a number may be used again for another.
    pub birth: u64,
    pub kind: FileKind,
    /// The one open file on it.
    pub file: Option<Arc<Held>>,
}

impl Seen {
    /// What `status` describes, of this `kind`.
    pub fn new(status: &statx, kind: FileKind) -> Self {
        Self {
            identity: identity(status),
            birth: birth(status),
            kind,
            file: None,
        }
    }

    /// Whether what `status` describes, which has the same number, is another inode.
    pub fn is_another(&self, status: &statx) -> bool {
        self.file.is_none() && self.birth != birth(status)
    }

    /// Whether `status` describes it.
    pub fn is(&self, status: &statx) -> bool {
        (self.identity, self.birth) == (identity(status), birth(status))
    }
}
