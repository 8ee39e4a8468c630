//! The driver API of Culvert.
//!
//! A *driver* implements [`FileSystem`]; an open file that the driver serves itself implements
//! [`File`]. The same driver runs inside a program's process (bypass) or behind a kernel mount
//! (FUSE) and never knows which.
//!
//! | to write | implement | see |
//! |---|---|---|
//! | a driver | [`FileSystem`], [`File`] | `docs/writing-a-driver.md` |
//! | a driver that wraps another | [`Layer`], [`FileLayer`], [`DataLayer`] | [`layer`] |
//! | a simple one, by paths | [`path::PathFileSystem`] | [`path`] |
//! | a library of one's own | the same, and [`export_driver!`] | [`library`] |
//! | the proof that it is right | a test that calls the kit | `testing` (feature) |
//!
//! The crate is `no_std`: a driver that is too can be called inside any process without that
//! process's libc.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(any(test, feature = "testing"))]
extern crate std;

/// The tutorial, compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/writing-a-driver.md")]
pub struct WritingADriver;

mod attributes;
mod backing;
mod caller;
mod change;
mod derived;
mod directory;
mod entry;
mod error;
mod file;
mod filesystem;
mod flags;
mod io;
pub mod layer;
pub mod library;
mod lock;
mod maps;
pub mod mount;
mod operation;
pub mod path;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

/// System calls, safe and by their own names, for drivers that live in programs: no libc is there.
/// Descriptors are owned or borrowed, errors are [`Errno`].
pub mod sys {
    pub use culvert_sys::{clock, fd, flags, fs, memory, process};
}

pub use attributes::{Attributes, FileKind, SetAttributes, StatFs, Timespec};
pub use backing::{Backing, BackingLinks};
pub use caller::{Access, Caller, Rights};
pub use change::{Change, Observed, Observer};
pub use culvert_sys::{Errno, OwnedFd, Shared, SharedMut, sync};
pub use directory::{Directory, OpenedDirectory};
pub use entry::{DirectoryEntry, DirectoryPlusSink, DirectorySink, Entry, Node, Reached, Walked};
pub use error::{Error, Result};
pub use file::{Caching, File, Opened, Readiness, Waiter, Whence};
pub use filesystem::FileSystem;
pub use flags::{Capabilities, OpenFlags, RenameFlags, Validity};
pub use io::{Sink, Source, read_through, write_through};
pub use layer::{DataFile, DataLayer, FileLayer, Layer, Layered, LayeredFile, Touches};
pub use lock::{Lock, LockKind, LockOwner, Wait};
pub use maps::Maps;
pub use operation::{Call, Operation};
