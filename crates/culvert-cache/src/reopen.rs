//! Files of drivers that are opened anew, by their numbers: the cache reads and writes them for
//! processes that have them open with fewer rights, or not any more.

use alloc::boxed::Box;
use culvert::{Errno, Error, File, OpenFlags, Opened, Result};
use culvert_run::{self as run, ShadowName, node_paths, task};
use culvert_sys::raw::general::O_RDWR;

/// The file of `name`, open for reading.
pub fn for_reading(name: ShadowName) -> Result<Box<dyn File>> {
    with(name, 0)
}

/// The same, for reading and writing.
pub fn for_writing(name: ShadowName) -> Result<Box<dyn File>> {
    with(name, O_RDWR)
}

fn with(name: ShadowName, flags: u32) -> Result<Box<dyn File>> {
    let file_system = run::get().mounts.driver(name.mount)?;
    if file_system.capabilities().transient_nodes {
        node_paths::find(name)?;
    }
    match file_system.open(&task::caller(), name.node, OpenFlags(flags))? {
        Opened::Driven(file) => Ok(file),
        Opened::Backed(_) => Err(Errno::EIO.into()),
    }
}

/// Whether opening a file anew fails with `error` because it is not this process's to open, as it
/// is of another user by now, or is no file any more. Any other error may pass, and is the
/// caller's.
pub fn is_out_of_reach(error: &Error) -> bool {
    use Errno as E;
    matches!(
        error.errno(),
        E::EACCES | E::EPERM | E::EROFS | E::ENOENT | E::ESTALE
    )
}
