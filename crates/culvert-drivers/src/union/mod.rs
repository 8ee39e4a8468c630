//! Several file systems as one: what mergerfs does, over branches that are any mounts.
//!
//! ```text
//! prepare:  options, modes -> checked (the branches are prepared already)
//! open:     the branches' file systems -> UnionFs
//! calls:    node -> its parts on branches (nodes) -> which of them (policy) -> the branch's call
//! ```

mod absences;
mod at_once;
mod beginning;
mod beliefs;
mod believing;
mod branch;
mod branches;
mod choice;
mod commands;
mod control;
mod directories;
mod exdev;
mod file;
mod filesystem;
mod follow;
mod found;
mod identity;
mod judging;
mod lazily;
mod learning;
mod listed;
mod listing;
mod looking;
mod looks;
mod making;
mod moves;
mod moving;
mod nodes;
mod opening;
mod options;
mod parts;
mod policy;
mod removing;
mod rights;
mod searcher;
mod space;
mod state;
mod table;
mod transfer;
mod unfinished;

pub use branches::{Drivers, expanded};
pub use listed::OPTIONS;
pub use options::DECLARED;

use crate::archive::{host::terminated, warning::printable};
use crate::{Environment, Prepared, Progress, Warnings};
use alloc::{boxed::Box, ffi::CString, format};
use culvert::{Errno, Error, FileSystem, Node, Result, mount::Mount};
use culvert_sys::fs::getxattr;
use options::Settings;

/// The root's number.
const ROOT: Node = Node(1);

/// The largest number that is the union's own.
const OWN: Node = Node(15);

/// The union's number for `node` of `branch`.
pub fn number(branch: &Mount, node: Node) -> Node {
    branch::number(branch::salt(branch), node)
}

/// Checks options and branches. `EINVAL` for one that is given twice.
pub fn prepare(
    mount: &Mount,
    _: &Environment<'_>,
    _: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    Settings::parse(mount)?;
    options::modes(mount)?;
    for (at, branch) in mount.branches.iter().enumerate() {
        let same = |other: &Mount| other.driver == branch.driver && other.source == branch.source;
        if mount.branches[..at].iter().any(same) {
            let source = printable(&branch.source);
            let text = format!("branch {source} is given twice");
            return Err(Error::because(Errno::EINVAL, text));
        }
    }
    Ok(Prepared {
        mount: mount.clone(),
        warnings: Warnings::default(),
        summary: format!("{} branches", mount.branches.len()),
        index: None,
    })
}

/// Finishes renames of directories that were begun by processes of runs that are over. What cannot
/// be opened here says so when it is opened.
pub fn finish(mount: &Mount, environment: &Environment<'_>, drivers: &'static Drivers) {
    let tells = |branch: &Mount| {
        let has = |path: CString| getxattr(&path, unfinished::ATTRIBUTE, &mut []).is_ok();
        branch.source.first() == Some(&b'/') && terminated(&branch.source).is_ok_and(has)
    };
    if !mount.read_only()
        && mount.branches.iter().any(tells)
        && let Ok(union) = filesystem::UnionFs::new(mount, environment, drivers)
    {
        state::Core::now(&union.0).finish_renames();
    }
}

/// The union of the branches of `mount`, or of those that there are by now, which `drivers` serve.
pub fn open(
    mount: &Mount,
    environment: &Environment<'_>,
    drivers: &'static Drivers,
) -> Result<Box<dyn FileSystem>> {
    let union = filesystem::UnionFs::new(mount, environment, drivers)?;
    Ok(Box::new(union))
}
