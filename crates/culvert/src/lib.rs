//! The driver API of Culvert.
//!
//! A *driver* implements [`FileSystem`]; an open file that the driver serves itself implements [`File`]. The same driver runs
//! inside a program's process (bypass), behind a kernel mount (FUSE) or behind a socket (wire) and never knows which.
//!
//! The crate is `no_std`: a driver that is too can be called inside any process without that process's libc.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(any(test, feature = "testing"))]
extern crate std;

mod attributes;
mod error;
mod file;
mod filesystem;
pub mod mount;

pub use attributes::{Attributes, FileKind, SetAttributes, StatFs, Timespec};
pub use culvert_sys::{Errno, sync};
pub use error::{Error, Result};
pub use file::{File, Mapping, Opened, Sink, Source, Whence};
pub use filesystem::{
    Caller, Capabilities, DirectoryEntry, DirectorySink, Entry, FileSystem, Node, OpenFlags,
    RenameFlags, Walked,
};
