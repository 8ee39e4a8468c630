//! The operations of the driver API, by the names that they have there.

/// A set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations(u64);

macro_rules! operations {
    ($($variant:ident = $name:literal,)*) => {
        /// An operation of the driver API, on the file system or on an open file.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation { $(#[doc = $name] $variant,)* }

        /// All of them with their names.
        const NAMES: &[(&str, Operation)] = &[$(($name, Operation::$variant),)*];
    };
}

operations! {
    Lookup = "lookup",
    Attributes = "attributes",
    Access = "access",
    Readlink = "readlink",
    Open = "open",
    Restore = "restore",
    OpenDirectory = "open_directory",
    ReadDirectory = "read_directory",
    SyncDirectory = "sync_directory",
    Statfs = "statfs",
    GetXattr = "get_xattr",
    ListXattr = "list_xattr",
    SetXattr = "set_xattr",
    RemoveXattr = "remove_xattr",
    SetAttributes = "set_attributes",
    Create = "create",
    Mkdir = "mkdir",
    Mknod = "mknod",
    Symlink = "symlink",
    Link = "link",
    Unlink = "unlink",
    Rmdir = "rmdir",
    Rename = "rename",
    Tmpfile = "tmpfile",
    Sync = "sync",
    ReadAt = "read_at",
    WriteAt = "write_at",
    Append = "append",
    Allocate = "allocate",
    Seek = "seek",
    CopyRange = "copy_range",
    Flush = "flush",
    Ioctl = "ioctl",
    Poll = "poll",
    GetLock = "get_lock",
    SetLock = "set_lock",
    Flock = "flock",
}

/// Words for several.
const GROUPS: &[(&str, Operations)] = &[
    ("read", Operations::of(&[Operation::ReadAt])),
    ("write", Operations::WRITES),
    ("any", Operations((1 << NAMES.len()) - 1)),
];

impl Operations {
    const WRITES: Self = Self::of(&[Operation::WriteAt, Operation::Append]);

    /// What moves bytes of a file.
    pub const DATA: Self = Self::of(&[Operation::ReadAt, Operation::WriteAt, Operation::Append]);

    /// What is asked of an open file.
    pub const FILE: Self = Self::of(&[
        Operation::Attributes,
        Operation::SetAttributes,
        Operation::Sync,
        Operation::ReadAt,
        Operation::WriteAt,
        Operation::Append,
        Operation::Allocate,
        Operation::Seek,
        Operation::CopyRange,
        Operation::Flush,
        Operation::Ioctl,
        Operation::Poll,
        Operation::GetLock,
        Operation::SetLock,
        Operation::Flock,
    ]);

    /// A set of these.
    pub const fn of(operations: &[Operation]) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < operations.len() {
            set |= 1 << operations[at] as u32;
            at += 1;
        }
        Self(set)
    }

    /// What the word `name` stands for: an operation or a group.
    pub fn named(name: &str) -> Option<Self> {
        let single = NAMES.iter().find(|(known, _)| *known == name);
        let group = GROUPS.iter().find(|(known, _)| *known == name);
        single
            .map(|(_, operation)| Self::of(&[*operation]))
            .or(group.map(|(_, group)| *group))
    }

    /// All words.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        let groups = GROUPS.iter().map(|(name, _)| *name);
        groups.chain(NAMES.iter().map(|(name, _)| *name))
    }

    /// These and those.
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether `operation` is one of them.
    pub const fn has(self, operation: Operation) -> bool {
        self.0 & 1 << operation as u32 != 0
    }

    /// Whether some of them are among `others`.
    pub const fn meets(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Whether all of them are among `others`.
    pub const fn within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
