//! What the cache has to know of an open file.

use crate::orphan_file::OrphanFile;
use culvert::{Errno, File};
use culvert_run::{ShadowName, node_locks::NodeLock};

/// A regular file that somebody has open, with the rights of that open: a description of the
/// program's.
pub trait OpenFile: Send + Sync {
    /// The name of its shadow.
    fn name(&self) -> ShadowName;

    /// Whether others may change the file, so that its shadow has to follow.
    fn changes(&self) -> bool;

    /// The file: the driver's, or what it has become. An error: it is no regular file, or cannot be
    /// reached.
    fn file(&self) -> Result<&dyn File, Errno>;

    /// The same where it is open for reading; EBADF otherwise.
    fn readable(&self) -> Result<&dyn File, Errno>;

    /// The same where it is open for writing; EBADF otherwise.
    fn writable(&self) -> Result<&dyn File, Errno>;

    /// What the file has become, if that is its shadow.
    fn orphan(&self) -> Option<&OrphanFile>;

    /// The lock of the node. None: nothing of the file can change, or the lock stands already for
    /// what the calling thread is at.
    fn lock(&self) -> Option<NodeLock<'static>>;
}
