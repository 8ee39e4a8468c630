//! Files without a name are handed to another program: their shadows become the files.

use crate::description::Description;
use crate::paging::orphans;
use crate::process::{self, Process};
use alloc::{sync::Arc, vec::Vec};

/// Hands over all that survive exec.
pub fn hand_down(process: &Process) {
    let mut inherited: Vec<Arc<Description>> = Vec::new();
    process.table.each(|fd, description| {
        if description.may_go() && !crate::descriptors::close_on_exec(fd).unwrap_or(true) {
            inherited.push(description.clone());
        }
    });
    if let Some(child) = process::vfork_child() {
        let installed = crate::descriptors::vfork::installed(child).into_iter();
        inherited.extend(installed.filter_map(|(_, description)| description));
    }
    for description in inherited {
        hand_over(&description);
    }
}

/// Hands over the file of `description`, if it has no name any more.
pub fn hand_over(description: &Description) {
    if description.may_go() {
        orphans::hand_over(description, description.seen());
    }
}
