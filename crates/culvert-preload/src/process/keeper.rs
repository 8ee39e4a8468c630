//! How descriptors are kept beside the program's own.

use super::VforkChild;
use crate::{process, shadow};
use alloc::boxed::Box;
use core::sync::atomic::AtomicI32;

/// How descriptors are kept beside the program's own.
pub fn keeper() -> culvert_drivers::Keeper {
    culvert_drivers::Keeper {
        adopt: Some(adopt),
        table: Some(process::tables::number),
        lends: Some(process::tables::are_asked_for),
    }
}

/// Takes a driver's descriptor out of the program's way.
pub fn adopt(fd: i32) -> Option<&'static AtomicI32> {
    match process::vfork_child_with_table() {
        None => process::get().table.adopt_internal(fd),
        // The process's own table does not have it.
        Some(child) => adopt_in_child(fd, child),
    }
}

/// Takes a driver's descriptor out of the way of a child of vfork, which is about to exec: a few
/// bytes are lost with it.
pub fn adopt_in_child(fd: i32, child: &VforkChild) -> Option<&'static AtomicI32> {
    let moved = crate::descriptors::dup_high(fd, true).ok()?;
    drop(shadow::Descriptor(fd));
    let place = &*Box::leak(Box::new(AtomicI32::new(moved)));
    child.keep_descriptor(place);
    Some(place)
}
