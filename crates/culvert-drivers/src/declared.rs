//! What a driver declares of itself, so that nobody asks for it by name.

use crate::Attribute;
use alloc::vec::Vec;
use culvert::{Node, Result, mount::Mount};

/// The option of a mount whose source is bound over its target (see the module `binding`). No user
/// writes it.
pub(crate) const BOUND: &str = "bound";

/// What the source of a mount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A directory. Who serves the mount may hold it by a descriptor.
    Directory,
    /// A regular file, which each process opens by its path; what people call it ("an archive
    /// file").
    File(&'static str),
    /// Any file that exists; the driver says what is wrong with it.
    Path,
    /// A name that is no path.
    Name,
    /// One or several. Each becomes a mount ([`Mount::branches`]), whose driver is found from it.
    Branches,
    /// The same, listed in options; the source says nothing.
    Options {
        /// Options that list them, in the order in which they become branches.
        branches: &'static [&'static str],
        /// Options that are paths.
        paths: &'static [&'static str],
    },
}

impl Source {
    /// Whether a mount has branches.
    pub const fn has_branches(self) -> bool {
        matches!(self, Self::Branches | Self::Options { .. })
    }
}

/// See [`Declared::branch_nodes`].
pub type BranchNodes = fn(&Mount, Node, Attribute<'_>) -> Result<Vec<Node>>;

/// How a program of another user than the run's gets the mount.
#[derive(Clone, Copy, Debug)]
pub enum OtherUser {
    /// It opens the source by its own rights.
    Opens,
    /// The same, and the mount is prepared anew, without what this takes away: what was made for
    /// the run's user.
    Prepares(fn(&mut Mount)),
    /// Not at all, for this reason.
    Refused(&'static str),
}

/// Whose the times of access are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessTimes {
    /// Those of the source's file system, which changes them by its mount's flags.
    Source,
    /// They never change.
    Never,
    /// The driver keeps them in its own way.
    Own,
}

/// What a driver declares.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    /// What its sources are.
    pub source: Source,
    /// Whether a source that comes without a type is the driver's: a name, or the path of what
    /// `source` says.
    pub recognises: fn(&[u8]) -> bool,
    /// How other users get a mount.
    pub other_user: OtherUser,
    /// Whose the times of access are.
    pub access_times: AccessTimes,
    /// Whether the kernel could show the same as a mount without layers by binding its source over
    /// its target (mount(2), `MS_BIND`); none: never. See the module `binding`.
    pub may_be_bound: Option<fn(&Mount) -> bool>,
    /// Changes a mount that layers lie over, or that is a branch, before it is opened.
    pub below_layers: Option<fn(&mut Mount)>,
    /// Of what has branches: the numbers that the whole may have for a file that has this one on a
    /// branch, the same in every process.
    pub branch_nodes: Option<BranchNodes>,
}
