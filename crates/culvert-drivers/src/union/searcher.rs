//! Who may search a directory: what is known of one holds for whoever has the same rights.

use alloc::vec::Vec;
use culvert::{Caller, Rights};

/// Who may search a directory.
pub struct Who {
    user: (u32, u32),
    rights: Option<Rights>,
    groups: Vec<u32>,
}

impl Who {
    /// Whoever `caller` is.
    pub fn of(caller: &Caller<'_>) -> Self {
        Self {
            user: (caller.uid, caller.gid),
            rights: caller.rights,
            groups: caller.groups.to_vec(),
        }
    }

    /// Whether it is `caller`.
    pub fn is(&self, caller: &Caller<'_>) -> bool {
        self.user == (caller.uid, caller.gid)
            && self.rights == caller.rights
            && self.groups == caller.groups
    }
}
