//! Files without a name are handed to another program: their shadows become the files.

use crate::description::Description;
use crate::process::Process;
use culvert_cache::orphans;

/// Hands over all that survive exec.
pub fn hand_down(process: &Process) {
    for (_, description) in process.table.inherited(Description::may_go) {
        hand_over(&description);
    }
}

/// Hands over the file of `description`, if it has no name any more.
pub fn hand_over(description: &Description) {
    // What it has become is looked at first: that brings what it has seen up to date.
    if description.may_go() && description.orphan().is_none() {
        orphans::hand_over(description, description.seen());
    }
}
