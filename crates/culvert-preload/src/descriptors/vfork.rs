//! The descriptors that a child of vfork has changed.

use crate::description::{Description, Held};
use alloc::sync::Arc;
use culvert_run::task::VforkChild;

/// The child's view of `fd`; `parent` is asked when the child has not changed it.
pub fn descriptor(
    child: &VforkChild,
    fd: i32,
    parent: impl FnOnce() -> Option<Held>,
) -> Option<Held> {
    match child.changed(fd) {
        Some(known) => known?.downcast().ok().map(Held::Counted),
        None => parent(),
    }
}

/// The child's `fd` is now `description`, or not ours.
pub fn install(child: &VforkChild, fd: i32, description: Option<Arc<Description>>) {
    child.change(fd, description.map(|description| description as _));
}
