//! The trait a driver implements.

use crate::{Attributes, Errno, FileKind, Opened, Result, SetAttributes, StatFs};
use alloc::vec::Vec;

/// A file, directory or link that stays itself when it is renamed. Numbers are stable while the mount lives and the same in every
/// process and transport that serves it. 0 is never a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(pub u64);

/// On whose behalf an operation runs.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// Effective (file-system) user.
    pub uid: u32,
    /// Effective (file-system) group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: &'a [u32],
    /// Process, for logs.
    pub pid: u32,
    /// umask(2), already applied to modes that reach the driver; for drivers with default ACLs.
    pub umask: u32,
}

/// What lookup and its relatives return.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The attributes, the node among them.
    pub attributes: Attributes,
}

/// How far [`FileSystem::walk`] came.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    /// The entry reached: the last one, or the symbolic link that stopped the walk. None: nothing was consumed.
    pub entry: Option<Entry>,
    /// The directory that holds `entry` (`from` itself when only one component was consumed).
    pub parent: Node,
    /// Bytes of the path consumed, up to and without the next slash.
    pub consumed: usize,
}

/// open(2) flags that reach a driver, as the kernel's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    /// O_RDONLY or O_RDWR.
    pub const fn read(self) -> bool {
        matches!(self.0 & 3, 0 | 2)
    }
    /// O_WRONLY or O_RDWR.
    pub const fn write(self) -> bool {
        matches!(self.0 & 3, 1 | 2)
    }
    /// O_TRUNC.
    pub const fn truncate(self) -> bool {
        self.0 & 0o1000 != 0
    }
    /// O_EXCL.
    pub const fn exclusive(self) -> bool {
        self.0 & 0o200 != 0
    }
    /// O_APPEND.
    pub const fn append(self) -> bool {
        self.0 & 0o2000 != 0
    }
}

/// renameat2(2) flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags(pub u32);

impl RenameFlags {
    /// RENAME_NOREPLACE.
    pub const NO_REPLACE: u32 = 1;
    /// RENAME_EXCHANGE.
    pub const EXCHANGE: u32 = 2;
    /// RENAME_WHITEOUT.
    pub const WHITEOUT: u32 = 4;
}

/// What a driver can and cannot do, stated instead of asked by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capabilities {
    /// Every change is refused with EROFS before it reaches the driver.
    pub read_only: bool,
    /// Names are looked up without regard to case.
    pub case_insensitive: bool,
    /// May run only in a server, never inside a program's process.
    pub server_only: bool,
    /// The tree never changes while the mount lives: entries may be kept without asking again.
    pub immutable: bool,
    /// Has extended attributes.
    pub xattrs: bool,
    /// Has hard links.
    pub hard_links: bool,
    /// Checks permissions itself, with more than the mode bits ([`FileSystem::access`] is overridden): the transport asks `access`
    /// instead of judging by the attributes, and leaves the rest to the operation itself.
    pub checks_permissions: bool,
}

/// One entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry<'a> {
    /// `d_ino`.
    pub inode: u64,
    /// Where the listing goes on *after* this entry (`d_off`): never 0, stable while the directory is open.
    pub next: u64,
    /// The type, for `d_type`.
    pub kind: FileKind,
    /// The name: 1 to 255 bytes, no slash, no NUL.
    pub name: &'a [u8],
}

/// Takes directory entries; returns false when the entry did not fit and the listing must stop *before* it.
pub type DirectorySink<'a> = dyn FnMut(DirectoryEntry<'_>) -> bool + 'a;

/// A file system. Names are single components: 1 to 255 bytes, no slash, no NUL, never `.` or `..`; the transport has checked that, has resolved
/// links and `..`, and has checked permission bits unless the capability says otherwise. All calls may come from several threads at once.
pub trait FileSystem: Send + Sync {
    /// What this driver can do. Constant while the mount lives.
    fn capabilities(&self) -> Capabilities;

    /// The root directory. Constant while the mount lives.
    fn root(&self) -> Node;

    /// Finds `name` in directory `dir`. `ENOENT` when there is none, `ENOTDIR` when `dir` is no directory.
    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry>;

    /// Walks several components of `path` (relative, no empty components, no `.` or `..`) at once, as far as plain directories
    /// lead: stops at the last component, or at a symbolic link on the way. Overridden by drivers that can walk themselves.
    /// `ENOENT`, `ENOTDIR` as in path_resolution(7).
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        let (mut dir, mut consumed) = (from, 0);
        loop {
            let rest = &path[consumed..];
            let name = &rest[..rest.iter().position(|&b| b == b'/').unwrap_or(rest.len())];
            let entry = self.lookup(caller, dir, name)?;
            consumed += name.len();
            if consumed == path.len() || entry.attributes.kind == FileKind::Symlink {
                return Ok(Walked {
                    entry: Some(entry),
                    parent: dir,
                    consumed,
                });
            }
            dir = entry.attributes.node;
            consumed += 1;
        }
    }

    /// The parent of directory `dir`; of the root the root.
    fn parent(&self, dir: Node) -> Result<Node>;

    /// A path of `node` below the root, without leading slash, empty for the root; for getcwd, `/proc/self/fd` and logs. Of several hard links any.
    fn path_of(&self, node: Node) -> Result<Vec<u8>>;

    /// stat(2) of a node.
    fn attributes(&self, node: Node) -> Result<Attributes>;

    /// Target of a symbolic link, 1 to 4095 bytes; `EINVAL` when it is none.
    fn readlink(&self, node: Node) -> Result<Vec<u8>>;

    /// Opens a regular file. `EISDIR` never comes here. `EROFS` when opened for writing on a read-only driver.
    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened>;

    /// Lists `dir` from position `from` on: 0 for the start, else a `next` that it gave. `.` and `..` are added by the transport. A listing that
    /// runs while entries come and go must show every entry that stays exactly once.
    fn read_directory(&self, dir: Node, from: u64, sink: &mut DirectorySink<'_>) -> Result<()>;

    /// statfs(2).
    fn statfs(&self) -> Result<StatFs>;

    /// Extended attribute `name` of `node`: `ENODATA` when it has none, `EOPNOTSUPP` when the driver has none at all.
    fn get_xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (node, name);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// Names of all extended attributes, each ended by NUL.
    fn list_xattr(&self, node: Node) -> Result<Vec<u8>> {
        let _ = node;
        Ok(Vec::new())
    }

    /// Sets an extended attribute; `flags` as in setxattr(2).
    fn set_xattr(
        &self,
        caller: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let _ = (caller, node, name, value, flags);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// Removes an extended attribute.
    fn remove_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        let _ = (caller, node, name);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// chmod, chown, truncate, utimensat by node; returns the attributes after the change.
    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let _ = (caller, node, changes);
        Err(Errno::ENOSYS.into())
    }

    /// Creates and opens a regular file atomically (open(2) with O_CREAT): `EEXIST` only with O_EXCL, else an existing one is opened.
    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let _ = (caller, dir, name, flags, mode);
        Err(Errno::ENOSYS.into())
    }

    /// mkdir(2).
    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        let _ = (caller, dir, name, mode);
        Err(Errno::ENOSYS.into())
    }

    /// mknod(2); the type is in `mode`.
    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        let _ = (caller, dir, name, mode, rdev);
        Err(Errno::ENOSYS.into())
    }

    /// symlink(2).
    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        let _ = (caller, dir, name, target);
        Err(Errno::ENOSYS.into())
    }

    /// link(2): another name for `node`.
    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        let _ = (caller, node, dir, name);
        Err(Errno::ENOSYS.into())
    }

    /// unlink(2). An open file stays usable until its last description is gone.
    fn unlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let _ = (caller, dir, name);
        Err(Errno::ENOSYS.into())
    }

    /// rmdir(2).
    fn rmdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let _ = (caller, dir, name);
        Err(Errno::ENOSYS.into())
    }

    /// renameat2(2).
    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let _ = (caller, from, to, flags);
        Err(Errno::ENOSYS.into())
    }

    /// An unnamed file in `dir` (O_TMPFILE).
    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let _ = (caller, dir, flags, mode);
        Err(Errno::EOPNOTSUPP.into())
    }

    /// The transport drops `count` of the references that lookup, create and the like gave it on `node`. Drivers whose
    /// node numbers are the back end's own need not count.
    fn forget(&self, node: Node, count: u64) {
        let _ = (node, count);
    }

    /// syncfs(2).
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
