//! Flags of open(2) and renameat2(2), as the kernel's bits, and what drivers state about
//! themselves.

/// open(2) flags that reach a driver, as the kernel's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlags(pub u32);

impl OpenFlags {
    /// O_RDONLY, nothing else.
    pub const READ: Self = Self(0);
    /// O_WRONLY, nothing else.
    pub const WRITE: Self = Self(1);
    /// O_RDWR, nothing else.
    pub const READ_WRITE: Self = Self(2);
    /// O_EXCL.
    pub const EXCLUSIVE: Self = Self(0o200);
    /// O_TRUNC.
    pub const TRUNCATE: Self = Self(0o1000);
    /// O_APPEND.
    pub const APPEND: Self = Self(0o2000);
    /// No flag of open(2): the front end says whose the descriptor of the file is to be
    /// ([`File::lend_descriptor`](crate::File::lend_descriptor)). Without it a
    /// driver keeps its descriptors out of the program's way from the open on. Such a descriptor is
    /// closed by execve(2) if `O_CLOEXEC` is among the flags, and only then. A layer hands it on
    /// as it is; to all others it means nothing.
    pub const LENDS: Self = Self(1 << 30);

    /// These flags and `other`'s.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// These flags without `other`'s.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// Whether all of `other`'s are among these.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
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
    /// O_DIRECT.
    pub const fn direct(self) -> bool {
        self.0 & 0o40000 != 0
    }
    /// O_DSYNC, of which O_SYNC is a superset: every write ends as if by fdatasync(2).
    pub const fn data_sync(self) -> bool {
        self.0 & 0o10000 != 0
    }
    /// O_NOATIME.
    pub const fn no_atime(self) -> bool {
        self.0 & 0o1000000 != 0
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

    /// RENAME_NOREPLACE is set.
    pub const fn no_replace(self) -> bool {
        self.0 & Self::NO_REPLACE != 0
    }
    /// RENAME_EXCHANGE is set.
    pub const fn exchange(self) -> bool {
        self.0 & Self::EXCHANGE != 0
    }
    /// RENAME_WHITEOUT is set.
    pub const fn whiteout(self) -> bool {
        self.0 & Self::WHITEOUT != 0
    }
}

/// What a driver can and cannot do, stated instead of asked by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capabilities {
    /// Every change is refused with EROFS before it reaches the driver.
    pub read_only: bool,
    /// Names are looked up without regard to case.
    pub case_insensitive: bool,
    /// The tree never changes while the mount lives: entries may be kept without asking again.
    pub immutable: bool,
    /// Has extended attributes.
    pub xattrs: bool,
    /// Has hard links.
    pub hard_links: bool,
    /// Checks permissions itself, with more than the mode bits
    /// ([`FileSystem::access`](crate::FileSystem::access) is overridden): the front end asks
    /// `access` instead of judging by the attributes, and leaves the rest to the operation itself.
    pub checks_permissions: bool,
    /// A node's number means something only in a process that was given a reference on it: the same
    /// in every process, but another one must find it by its path first.
    pub transient_nodes: bool,
    /// The time of access in an [`Entry`](crate::Entry) may be an older one: reading has changed it
    /// since. Who wants it asks [`FileSystem::attributes`](crate::FileSystem::attributes).
    pub access_time_lags: bool,
    /// What another process writes into a file, its size above all, may be seen only when that
    /// process has synced or closed it and this one opens or syncs it; usually it is at once.
    pub size_at_sync: bool,
    /// Locks of its files exclude those of others who reach them by another way: every open file
    /// has a descriptor of the kernel's ([`File::descriptor`](crate::File::descriptor)) or a file
    /// that stands for it ([`File::lock_file`](crate::File::lock_file)), or keeps locks itself
    /// ([`File::set_lock`](crate::File::set_lock) and its kin).
    pub locks: bool,
    /// Some of its files are not always ready: who waits for one (poll(2), select(2), epoll(7))
    /// waits until the driver says so, see [`File::poll`](crate::File::poll). A front end that is
    /// not told so does not ask.
    pub polls: bool,
    /// Several processes may write into one file at the same time: the driver keeps each write
    /// whole, and each append at an end of its own. A front end lets the writers of others wait.
    pub parallel_writes: bool,
    /// Each read and write may wait, for a server or a network: one that must not (RWF_NOWAIT,
    /// preadv2(2)) is refused with EOPNOTSUPP.
    pub waits: bool,
}

/// How long what a driver said may be believed without asking again, nanoseconds (FUSE's
/// `entry_valid`, `attr_valid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// That a name leads to a node.
    pub entry: u64,
    /// A node's attributes.
    pub attributes: u64,
    /// That a name does not exist.
    pub absent: u64,
}

impl Validity {
    /// Nothing is believed: ask each time.
    pub const NONE: Self = Self {
        entry: 0,
        attributes: 0,
        absent: 0,
    };
    /// Names and attributes for a second, absence not at all: what users of FUSE expect (libfuse's
    /// `entry_timeout`, `attr_timeout`, `negative_timeout`).
    pub const SECOND: Self = Self {
        entry: 1_000_000_000,
        attributes: 1_000_000_000,
        absent: 0,
    };
    /// Everything is believed while the mount lives.
    pub const FOREVER: Self = Self {
        entry: u64::MAX,
        attributes: u64::MAX,
        absent: u64::MAX,
    };
}
