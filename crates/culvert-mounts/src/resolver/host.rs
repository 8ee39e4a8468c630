//! What the resolver asks of the real file system.

use super::{Hold, MountId, Place};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use culvert::{Attributes, Errno, Node};

/// The type of a file outside, as far as a walk cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Anything else.
    Other,
}

/// What lstat(2) says about a file outside.
#[derive(Clone, Copy, Debug)]
pub struct HostFile {
    /// The type.
    pub kind: HostKind,
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
}

/// What a link below `/proc` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Magic {
    /// An ordinary link: its text says where it leads.
    No,
    /// It jumps to a directory (`/proc/self/cwd`, `/proc/self/fd/N` of a directory).
    Directory(Place),
    /// It jumps to a file of a mount that is no directory (`/proc/self/fd/N`, `/proc/self/exe`).
    File {
        /// The mount.
        mount: MountId,
        /// The file.
        node: Node,
        /// What keeps it, where the descriptor alone does not.
        hold: Option<Arc<Hold>>,
    },
    /// The same, a file that has no name any more and is not its driver's (`culvert-cache`).
    Gone {
        /// The mount.
        mount: MountId,
        /// The file.
        attributes: Box<Attributes>,
    },
    /// It jumps where only the kernel can follow (another process, a pipe, a file outside).
    Kernel,
}

/// The real file system. Paths are absolute and have no links but at the end, no `.`, no `..`
/// (except `/.` at the end of [`Host::lstat`]).
pub trait Host {
    /// lstat(2).
    fn lstat(&self, path: &[u8]) -> Result<HostFile, Errno>;

    /// readlink(2).
    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno>;

    /// What the link at `path`, which begins with `/proc/`, is. `/proc/self` and
    /// `/proc/thread-self` are ordinary links, so numbers stand in their place: `/proc/17/fd/3`,
    /// `/proc/17/task/18/cwd`. Also called for paths that may be no link at all: [`Magic::No`].
    fn magic(&self, path: &[u8]) -> Magic {
        let _ = path;
        Magic::No
    }

    /// Whether one call can tell that no link lies on `path` (which may hold anything here, and
    /// need not exist): an openat2(2) with `O_PATH` and `RESOLVE_NO_SYMLINKS` that does not answer
    /// `ELOOP`. False when in doubt.
    fn link_free(&self, path: &[u8]) -> bool {
        let _ = path;
        false
    }
}
