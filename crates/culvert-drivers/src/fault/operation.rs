//! Sets of operations of the driver API, by the names that they have there.

use culvert::Operation;

/// A set of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations(u64);

/// Words for several.
const GROUPS: &[(&str, Operations)] = &[
    ("read", Operations::of(&[Operation::ReadAt])),
    ("write", Operations::WRITES),
    ("any", Operations::ALL),
];

impl Operations {
    const WRITES: Self = Self::of(&[Operation::WriteAt, Operation::Append]);

    /// What moves bytes of a file.
    pub const DATA: Self = Self::of(&[Operation::ReadAt, Operation::WriteAt, Operation::Append]);

    /// What concerns the bytes of a file and nothing else.
    pub const BYTES: Self = Self::DATA.with(Self::of(&[
        Operation::Allocate,
        Operation::Seek,
        Operation::CopyRange,
    ]));

    /// What concerns names.
    pub const NAMES: Self = Self::of(&[
        Operation::Lookup,
        Operation::Readlink,
        Operation::OpenDirectory,
        Operation::ReadDirectory,
        Operation::Create,
        Operation::Mkdir,
        Operation::Mknod,
        Operation::Symlink,
        Operation::Link,
        Operation::Unlink,
        Operation::Rmdir,
        Operation::Rename,
        Operation::Tmpfile,
    ]);

    /// All others.
    pub const REST: Self = Self(Self::ALL.0 & !(Self::BYTES.0 | Self::NAMES.0));

    /// All.
    const ALL: Self = Self((1 << Operation::ALL.len()) - 1);

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
        let mut all = Operation::ALL.iter();
        let single = all.find(|operation| operation.name() == name);
        let group = GROUPS.iter().find(|(known, _)| *known == name);
        single
            .map(|operation| Self::of(&[*operation]))
            .or(group.map(|(_, group)| *group))
    }

    /// All words.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        let groups = GROUPS.iter().map(|(name, _)| *name);
        groups.chain(Operation::ALL.iter().map(|operation| operation.name()))
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
