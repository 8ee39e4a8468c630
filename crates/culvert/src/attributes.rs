//! What stat(2), statx(2) and statfs(2) report, and what chmod, chown, utimensat and truncate
//! change.

use crate::Node;

/// A point in time: seconds since the epoch (may be negative) and nanoseconds, 0 to 999,999,999.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timespec {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds within the second, 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// The type of a file, as in the upper bits of `st_mode` (inode(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FileKind {
    /// A regular file (`S_IFREG`).
    Regular = 0o100000,
    /// A directory (`S_IFDIR`).
    Directory = 0o040000,
    /// A symbolic link (`S_IFLNK`).
    Symlink = 0o120000,
    /// A character device (`S_IFCHR`).
    CharacterDevice = 0o020000,
    /// A block device (`S_IFBLK`).
    BlockDevice = 0o060000,
    /// A FIFO (`S_IFIFO`).
    Fifo = 0o010000,
    /// A socket (`S_IFSOCK`).
    Socket = 0o140000,
}

impl FileKind {
    /// The kind in the upper bits of `mode`, none when they name no kind.
    pub const fn of_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170000 {
            0o100000 => Self::Regular,
            0o040000 => Self::Directory,
            0o120000 => Self::Symlink,
            0o020000 => Self::CharacterDevice,
            0o060000 => Self::BlockDevice,
            0o010000 => Self::Fifo,
            0o140000 => Self::Socket,
            _ => return None,
        })
    }

    /// `d_type` of getdents64(2) (`DT_*`).
    pub const fn directory_type(self) -> u8 {
        (self as u32 >> 12) as u8
    }
}

/// The attributes of a node (stat(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// The node itself; also `st_ino`, unless [`Attributes::inode`] differs.
    pub node: Node,
    /// `st_ino`. Stable while the mount lives, the same in every process and front end; equal for
    /// hard links.
    pub inode: u64,
    /// The type.
    pub kind: FileKind,
    /// Permission bits with suid, sgid and sticky, 0 to 0o7777.
    pub permissions: u32,
    /// Number of hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, as the kernel encodes it in `st_rdev`; else 0.
    pub rdev: u64,
    /// Size in bytes; of a symbolic link the length of its target.
    pub size: u64,
    /// Space used, in units of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size, bytes.
    pub block_size: u32,
    /// Last access.
    pub atime: Timespec,
    /// Last change of content.
    pub mtime: Timespec,
    /// Last change of attributes.
    pub ctime: Timespec,
    /// Creation, where known.
    pub btime: Option<Timespec>,
}

impl Attributes {
    /// Attributes of something with one link (a directory: two) that belongs to the superuser, all
    /// times the epoch; node and inode are 0, to be filled in. A start for drivers: `Attributes {
    /// size, ..Attributes::new(FileKind::Regular, 0o644) }`.
    pub const fn new(kind: FileKind, permissions: u32) -> Self {
        const EPOCH: Timespec = Timespec {
            seconds: 0,
            nanoseconds: 0,
        };
        Self {
            node: Node(0),
            inode: 0,
            kind,
            permissions,
            links: 1 + (matches!(kind, FileKind::Directory) as u32),
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            block_size: 4096,
            atime: EPOCH,
            mtime: EPOCH,
            ctime: EPOCH,
            btime: None,
        }
    }

    /// `st_mode`: type and permissions.
    pub const fn mode(&self) -> u32 {
        self.kind as u32 | self.permissions
    }
}

/// What setattr shall change; `None` leaves a field alone.
///
/// Nothing at all is chown(2) with -1 twice: set-user-ID and set-group-ID go as with every chown,
/// and the change time moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// New permission bits (chmod(2)).
    pub permissions: Option<u32>,
    /// New owner (chown(2)).
    pub uid: Option<u32>,
    /// New group (chown(2)).
    pub gid: Option<u32>,
    /// New size in bytes (truncate(2)).
    pub size: Option<u64>,
    /// New access time; `UTIME_NOW` is resolved by the caller.
    pub atime: Option<Timespec>,
    /// New modification time; `UTIME_NOW` is resolved by the caller.
    pub mtime: Option<Timespec>,
    /// New change time: only from a kernel mount that keeps times itself (FUSE's writeback cache).
    /// None: the present, as always when anything changes.
    pub ctime: Option<Timespec>,
    /// Both times were asked for as the present moment (`utimes(path, NULL)`, or `UTIME_NOW`
    /// twice): write permission is enough, where explicit times need the owner (`ATTR_TOUCH`,
    /// `vfs_utimes` in fs/utimes.c). A driver that hands the call on must hand it on so.
    pub touch: bool,
}

impl SetAttributes {
    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What statfs(2) reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatFs {
    /// `f_type`, a magic number.
    pub magic: u64,
    /// Unit of the block counts, bytes.
    pub block_size: u32,
    /// Size of the file system, blocks.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks for ordinary users.
    pub blocks_available: u64,
    /// Nodes in all.
    pub files: u64,
    /// Free nodes.
    pub files_free: u64,
    /// Longest name, bytes.
    pub name_max: u32,
    /// Read-only (`ST_RDONLY`).
    pub read_only: bool,
}
