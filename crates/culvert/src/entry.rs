//! What lookup, walk and directory listings return.

use crate::{Attributes, FileKind};

/// A file, directory or link that stays itself when it is renamed. Numbers are stable while the
/// mount lives and the same in every process and front end that serves it. 0 is never a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(pub u64);

/// What lookup and its relatives return. Each one returned is one reference on its node (see
/// "Nodes" at [`FileSystem`](crate::FileSystem)).
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The attributes, the node among them.
    pub attributes: Attributes,
}

/// How far [`FileSystem::walk`](crate::FileSystem::walk) came.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    /// The entry reached: the last one, or the symbolic link that stopped the walk. None: nothing
    /// was consumed.
    pub entry: Option<Entry>,
    /// The directory that holds `entry` (`from` itself when only one component was consumed).
    pub parent: crate::Node,
    /// Bytes of the path consumed, up to and without the next slash.
    pub consumed: usize,
}

/// Where [`FileSystem::reach`](crate::FileSystem::reach) came.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// What the last component is, a symbolic link itself; none when its directory has no such
    /// name.
    pub entry: Option<Entry>,
    /// The directory that the last component was looked for in.
    pub parent: crate::Node,
}

/// One entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// `d_ino`.
    pub inode: u64,
    /// Where the listing goes on *after* this entry (`d_off`): never 0, stable while the directory
    /// is open. At most `i64::MAX`, for telldir(3) gives it to programs as a signed number.
    pub next: u64,
    /// The type, for `d_type`.
    pub kind: FileKind,
    /// The name: 1 to 255 bytes, no slash, no NUL.
    pub name: &'a [u8],
}

/// Takes directory entries; returns false when the entry did not fit and the listing must stop
/// *before* it.
pub type DirectorySink<'a> = dyn FnMut(DirectoryEntry<'_>) -> bool + 'a;

/// As [`DirectorySink`], with the entry that a lookup of the name would give; none when that
/// failed. An entry that was taken (the sink returned true) is one reference on its node.
pub type DirectoryPlusSink<'a> = dyn FnMut(DirectoryEntry<'_>, Option<Entry>) -> bool + 'a;
