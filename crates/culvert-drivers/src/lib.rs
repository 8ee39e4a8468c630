//! The file systems that come with Culvert, and the registry that knows them by name.
//!
//! A mount goes through two moments. [`prepare`] runs once, in the launcher: it checks source and
//! options, does what is costly, and returns the mount as it is to travel. [`open`] runs in every
//! process that uses the mount and must be cheap.
//!
//! The crate is `no_std`: it is linked into `libculvert.so`, which lives in other people's
//! processes.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod archive;
pub mod avfs;
pub mod bind;
pub mod binding;
pub mod casefold;
mod declared;
mod descriptor;
pub mod fault;
pub mod fuse;
mod glob;
mod holds;
pub mod layers;
pub mod log;
pub mod memory;
mod name_changes;
pub mod object;
mod option_table;
pub mod overlay;
pub mod passthrough;
pub mod plfs;
mod proof;
mod registry;
pub mod sdcard;
mod sorted_names;
mod superuser;
pub mod trace;
pub mod union;
mod waiting;
mod words;

pub use archive::{Progress, Warning, Warnings};
pub use declared::{AccessTimes, Declared, OtherUser, Source};
pub use descriptor::{Adopt, Keeper, KeptFd, NodeBook, OwnedFd, TableNumber, Traces};
pub use layers::{open, prepare};
pub use option_table::{OptionInfo, OptionTable};
pub use passthrough::{DescriptorFile, unhindered};
pub use proof::Proof;
pub use registry::{DriverInfo, declared, declared_by, detect, find, list};
pub(crate) use registry::{check_names, check_names_of};
pub(crate) use words::invalid_option;

use alloc::{string::String, vec::Vec};
use culvert::mount::Mount;

/// What a driver may use of the place where it runs.
#[derive(Clone, Copy, Default)]
pub struct Environment<'a> {
    /// A directory for what is worth keeping between runs (`$XDG_CACHE_HOME/culvert/index`), made
    /// when it is missing.
    pub cache_directory: Option<&'a [u8]>,
    /// A directory for what the run alone needs: its run directory.
    pub run_directory: Option<&'a [u8]>,
    /// The driver serves this process and nobody else, a kernel mount's server: what only the run
    /// uses changes only by its calls.
    pub alone: bool,
    /// Keeps the driver's descriptors out of the program's way.
    pub keeper: Keeper,
    /// Whether a signal waits for the thread that is in the driver; drivers that wait long by
    /// themselves ask it.
    pub interrupted: Option<fn() -> bool>,
    /// On whose behalf the calling thread is in the driver, for operations that do not say; none:
    /// nobody knows.
    pub caller: Option<fn() -> culvert::Caller<'static>>,
    /// Whether any process of the run holds a description of the node that the kernel keeps for it:
    /// one that was shared by fork, exec or a lock, and may be of a program that has not used the
    /// mount yet.
    pub in_use: Option<InUse>,
    /// A descriptor on the source, a directory, where its path may lead elsewhere by now: to the
    /// mount itself that lies over it.
    pub source: Option<i32>,
    /// Where it stands which descriptors are which nodes, for the process that continues this one's
    /// work with its descriptors.
    pub book: Option<&'static dyn NodeBook>,
    /// Does several things at once, by threads that act for whom the calling one does; none: there
    /// are no threads to be had.
    pub at_once: Option<AtOnce>,
    /// How many nodes may have a descriptor at a time; none: all. What the front end knows besides
    /// is opened again when it is needed.
    pub open_nodes: Option<usize>,
    /// Opens a mount whose type is the path of a library ([`culvert::mount::is_library`]), with the
    /// libc of this process; none: the library is one that needs none ([`object`]).
    pub library: Option<OpenLibrary>,
}

/// See [`Environment::at_once`]. Returns when all are done.
pub type AtOnce = fn(&mut [&mut (dyn FnMut() + Send)]);

/// See [`Environment::library`].
pub type OpenLibrary = fn(&Mount) -> culvert::Result<alloc::boxed::Box<dyn culvert::FileSystem>>;

/// See [`Environment::in_use`]. The node is asked for as the driver knows it, with a way to read
/// its attributes: who has the driver below may know the file by another number, which one of them
/// says.
pub type InUse = &'static (dyn Fn(culvert::Node, Attribute<'_>) -> bool + Sync);

/// Reads an extended attribute of a file that is asked for, under whatever locks the driver holds;
/// none: there is none. An error: it cannot say.
pub type Attribute<'a> = &'a dyn Fn(&[u8]) -> culvert::Result<Option<alloc::vec::Vec<u8>>>;

/// A mount that is ready.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The mount as it is to travel to every process: options that depend on the launcher are
    /// filled in.
    pub mount: Mount,
    /// What the user should know.
    pub warnings: Warnings,
    /// One line about the source ("tar, gzip, 71 nodes, 123456 bytes of content").
    pub summary: String,
    /// The index that was made or found, for drivers that have one.
    pub index: Option<PreparedIndex>,
}

/// What a driver keeps about a source beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedIndex {
    /// The file that holds it.
    pub path: Vec<u8>,
    /// It was made now, not found.
    pub built: bool,
}
