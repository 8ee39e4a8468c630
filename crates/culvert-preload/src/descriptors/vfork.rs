//! The descriptors that a child of vfork has changed.

use crate::description::{Description, Held};
use crate::task::VforkChild;
use alloc::{sync::Arc, vec::Vec};

impl VforkChild {
    /// The child's view of `fd`; `parent` is asked when the child has not changed it.
    pub fn descriptor(&self, fd: i32, parent: impl FnOnce() -> Option<Held>) -> Option<Held> {
        match self.changed(fd) {
            Some(known) => known?.downcast().ok().map(Held::Counted),
            None => parent(),
        }
    }

    /// The child's `fd` is now `description`, or not ours.
    pub fn install(&self, fd: i32, description: Option<Arc<Description>>) {
        self.change(fd, description.map(|description| description as _));
    }

    /// The descriptors that the child has changed, and what they are where that is ours.
    pub fn installed(&self) -> Vec<(i32, Option<Arc<Description>>)> {
        let changes = self.changes().into_iter();
        let known = changes.map(|(fd, known)| (fd, known.and_then(|it| it.downcast().ok())));
        known.collect()
    }
}
