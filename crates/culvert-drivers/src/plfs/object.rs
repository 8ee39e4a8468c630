//! What a path leads to on the back ends.

use super::host;
use super::layout::ACCESS;
use crate::OwnedFd;
use crate::passthrough::kernel;
use culvert::{Errno, FileKind, Result};
use culvert_sys::fd::AsFd;
use culvert_sys::raw::general::statx;

/// What a path leads to.
pub struct Object {
    /// The back end.
    pub at: usize,
    /// `O_PATH`.
    pub place: OwnedFd,
    pub status: statx,
    /// That of the access file, where it is a container.
    pub access: Option<statx>,
}

impl Object {
    pub fn kind(&self) -> Result<FileKind> {
        match self.access {
            Some(_) => Ok(FileKind::Regular),
            None => kernel::kind(&self.status),
        }
    }
}

/// The access file's status, if `dir` is a container.
pub fn access_of(dir: impl AsFd) -> Result<Option<statx>> {
    match host::status(dir, ACCESS) {
        Ok(status) => Ok(Some(status)),
        Err(error) if matches!(error.errno(), Errno::ENOENT | Errno::EACCES) => Ok(None),
        Err(error) => Err(error),
    }
}
