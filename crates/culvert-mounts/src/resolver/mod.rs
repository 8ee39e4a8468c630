//! From a path to what it names: the kernel's path resolution (path_resolution(7)), played over
//! mounts that the kernel does not know.
//!
//! Work is done in three steps, each only when the one before could not decide:
//!
//! 1. [`MountTable::quick`] compares text. Nearly every path of a program enters no mount and gets
//!    its answer here.
//! 2. [`MountTable::walk`] resolves component by component, in mounts by their drivers and outside
//!    by [`Host`].
//! 3. [`MountTable::after_miss`] resolves what the kernel answered with `ENOENT` or `ENOTDIR`: a
//!    link outside may lead into a mount. Its companion is [`MountTable::is_target`], for a native
//!    success that ended at the empty directory under a mount.
//!
//! Nothing here makes a system call; all of them are behind [`Host`].
//!
//! What is not checked: search permission on the host directories that lead to a target when a path
//! names the target itself, and `fs.protected_symlinks`.

mod host;
mod quick;
mod scan;
#[cfg(test)]
mod tests;
mod walk;

pub use crate::{Hold, MountId, MountTable, OpenDriver, Place, References};
pub use host::{Host, HostFile, HostKind, Magic};
pub use quick::Quick;
pub use scan::last_slash;

use alloc::{borrow::Cow, vec::Vec};
use culvert::{Entry, Node};

/// What happens to the last component (`LOOKUP_FOLLOW` and `LOOKUP_PARENT` of the kernel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastStep {
    /// Links are followed: open, stat, access, chdir.
    Follow,
    /// A link is the answer, unless a slash comes after it: lstat, readlink, `O_NOFOLLOW`.
    NoFollow,
    /// Like `Follow`, but what is missing may be made: open with `O_CREAT`, without `O_EXCL` and
    /// `O_NOFOLLOW`. A trailing slash is `EISDIR`.
    Create,
    /// Like `NoFollow`, but what is missing may be made: open with `O_CREAT` and `O_NOFOLLOW`. A
    /// trailing slash is `EISDIR`.
    CreateNoFollow,
    /// The same with `O_EXCL`: what has the name need not be said, for it will not be made.
    CreateNew,
    /// The name itself is what the call works on: mkdir, mknod, symlink, link's new name, unlink,
    /// rmdir, rename. Never followed; a trailing slash is reported, not judged.
    Parent,
}

impl LastStep {
    /// Whether a missing last component is an answer instead of `ENOENT`.
    const fn wants_parent(self) -> bool {
        matches!(
            self,
            Self::Create | Self::CreateNoFollow | Self::CreateNew | Self::Parent
        )
    }
    /// Whether a link at the end, with nothing after it, is followed.
    const fn follows(self) -> bool {
        matches!(self, Self::Follow | Self::Create)
    }
    const fn creates(self) -> bool {
        matches!(self, Self::Create | Self::CreateNoFollow | Self::CreateNew)
    }
}

/// `resolve` of openat2(2): `RESOLVE_*` bits. `RESOLVE_CACHED` is not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restrictions(pub u64);

impl Restrictions {
    /// `RESOLVE_NO_XDEV`.
    pub const NO_XDEV: u64 = 0x01;
    /// `RESOLVE_NO_MAGICLINKS`.
    pub const NO_MAGICLINKS: u64 = 0x02;
    /// `RESOLVE_NO_SYMLINKS`.
    pub const NO_SYMLINKS: u64 = 0x04;
    /// `RESOLVE_BENEATH`.
    pub const BENEATH: u64 = 0x08;
    /// `RESOLVE_IN_ROOT`.
    pub const IN_ROOT: u64 = 0x10;

    const fn has(self, bits: u64) -> bool {
        self.0 & bits != 0
    }
}

/// How the last component of a path was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Last<'p> {
    /// A name in the parent directory: 1 to 255 bytes.
    Name(Cow<'p, [u8]>),
    /// `.`: removing calls answer `EINVAL`, creating ones `EEXIST`, rename `EBUSY`.
    Dot,
    /// `..`: rmdir answers `ENOTEMPTY`, creating calls `EEXIST`, rename `EBUSY`.
    DotDot,
    /// `/`, possible only under `RESOLVE_IN_ROOT`.
    Root,
    /// The target of a mount: removing and renaming calls answer `EBUSY` (unlink: `EISDIR`),
    /// creating ones `EEXIST`.
    MountPoint,
    /// A link of proc(5) that jumps: there is no name.
    Magic,
}

/// Something in a mount.
#[derive(Debug)]
pub struct Inside<'p> {
    /// The mount.
    pub mount: MountId,
    /// The directory that holds the last component; where there is no name ([`Inside::last`]), the
    /// thing itself.
    pub parent: Node,
    /// The last component.
    pub last: Last<'p>,
    /// What it is. None only with the steps that may make it ([`LastStep::Create`],
    /// [`LastStep::CreateNoFollow`], [`LastStep::Parent`]).
    pub entry: Option<Entry>,
    /// What keeps `parent` and `entry` valid: all references of the walk.
    pub references: References<'p>,
    /// One or more slashes follow the last component. With [`LastStep::Follow`] and
    /// [`LastStep::NoFollow`] it is a directory then.
    pub trailing_slash: bool,
}

impl Inside<'_> {
    /// The directory and the name by which it was found.
    pub fn at(&self) -> Option<(Node, &[u8])> {
        match &self.last {
            Last::Name(name) => Some((self.parent, name.as_ref())),
            _ => None,
        }
    }
}

/// What a path names.
#[derive(Debug)]
// made once for a call, on the stack: a box would cost each path an allocation
#[allow(clippy::large_enum_variant)]
pub enum Resolved<'p> {
    /// Something in a mount.
    Inside(Inside<'p>),
    /// The path went through a mount and left it: the kernel gets `path` instead, absolute, and
    /// without `RESOLVE_BENEATH` and `RESOLVE_IN_ROOT`, which have been obeyed. Only its last
    /// component may be a link, and only if it is not to be followed.
    ///
    /// Also where it ends in a mount with a backing tree: the kernel gets what
    /// [`MountTable::backed`] says of `path`.
    Outside {
        /// What to give the kernel.
        path: Vec<u8>,
    },
    /// With [`LastStep::NoFollow`]: a link of proc(5) that leads to something in a mount.
    /// readlink(2) answers from it; for all other calls the same as `Untouched`.
    MagicLink(Magic),
    /// No mount plays a part: the kernel gets the call as it was made.
    Untouched,
}
