//! An open directory.

use crate::{DirectorySink, OwnedFd, Result};
use alloc::boxed::Box;

/// What opening a directory found.
pub enum OpenedDirectory {
    /// Nothing is kept per open: the front end calls
    /// [`FileSystem::read_directory`](crate::FileSystem::read_directory) with the node.
    Stateless,
    /// The descriptor *is* the directory, as with [`Opened::Backed`](crate::Opened::Backed),
    /// opened with `O_DIRECTORY`. Listings are the kernel's own; names are still resolved through
    /// the driver.
    Backed(OwnedFd),
    /// The driver keeps a snapshot or a cursor for this open.
    Driven(Box<dyn Directory>),
}

/// One open directory whose listing the driver keeps state for: a snapshot of a remote listing, a
/// descriptor of the back end. Calls may come from several threads at once. Dropped at the last
/// close.
pub trait Directory: Send + Sync {
    /// As [`FileSystem::read_directory`](crate::FileSystem::read_directory), whose contract and
    /// errors hold. 0 starts anew and shows what is there now (rewinddir(3)).
    fn read(&self, from: u64, sink: &mut DirectorySink<'_>) -> Result<()>;

    /// fsync(2) or fdatasync(2) of the directory: its names are durable when this returns. `EIO`,
    /// `ENOSPC`, `EDQUOT` as [`File::sync`](crate::File::sync).
    fn sync(&self, data_only: bool) -> Result<()> {
        let _ = data_only;
        Ok(())
    }
}
