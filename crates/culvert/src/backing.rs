//! A mount that is a directory tree of the kernel.

/// The directory tree of the kernel that a mount is. See
/// [`FileSystem::backing`](crate::FileSystem::backing).
#[derive(Clone, Copy, Debug)]
pub struct Backing {
    /// Its root directory: a descriptor opened with `O_PATH`, borrowed from the driver, valid while
    /// that lives. Its number may change when the program takes it: ask again for each use.
    pub root: i32,
    /// How symbolic links in it are to be resolved.
    pub links: BackingLinks,
    /// Whether the kernel has the tree mounted where the mount is seen, and `root` was opened
    /// there: it resolves links and `..` in the tree as [`BackingLinks::Mount`] says, mounts apart
    /// that only Culvert knows.
    pub bound: bool,
}

/// Resolution of symbolic links in a backing tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackingLinks {
    /// As path_resolution(7) says for the place where the mount is seen: absolute links start at
    /// the process's root, `..` in a link at the top of the mount leads to the directory that holds
    /// the target, mounts inside are entered.
    #[default]
    Mount,
    /// As the kernel resolves them in the backing tree itself: one call for each operation, but a
    /// link that climbs out of the source ends where it would there.
    Backing,
}
