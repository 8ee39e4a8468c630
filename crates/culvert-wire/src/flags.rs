//! What INIT negotiates.

/// Bits of `fuse_init_in` and `fuse_init_out`: `flags` below, `flags2` above bit 32 (`FUSE_*` of
/// `include/uapi/linux/fuse.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InitFlags(pub u64);

macro_rules! init_flags {
    ($($(#[$meta:meta])* $name:ident = $bit:literal;)*) => {
        impl InitFlags {
            $($(#[$meta])* pub const $name: Self = Self(1 << $bit);)*
            /// Every flag known here, by the kernel's name without `FUSE_`.
            pub const ALL: &'static [(&'static str, Self)] = &[$((stringify!($name), Self::$name)),*];
        }
    };
}

init_flags! {
    /// Several reads of a file may be under way.
    ASYNC_READ = 0;
    /// The server keeps fcntl(2)'s locks.
    POSIX_LOCKS = 1;
    /// Never implemented.
    FILE_OPS = 2;
    /// OPEN may carry `O_TRUNC`.
    ATOMIC_O_TRUNC = 3;
    /// LOOKUP of `.` and `..` is answered.
    EXPORT_SUPPORT = 4;
    /// Writes of more than a page.
    BIG_WRITES = 5;
    /// The server applies the umask.
    DONT_MASK = 6;
    /// The device takes splice(2) for writing.
    SPLICE_WRITE = 7;
    /// And moves pages.
    SPLICE_MOVE = 8;
    /// The device takes splice(2) for reading.
    SPLICE_READ = 9;
    /// The server keeps flock(2)'s locks.
    FLOCK_LOCKS = 10;
    /// ioctl(2) of directories.
    HAS_IOCTL_DIR = 11;
    /// Cached pages go when size or time have changed.
    AUTO_INVAL_DATA = 12;
    /// READDIRPLUS.
    DO_READDIRPLUS = 13;
    /// The kernel chooses between READDIR and READDIRPLUS.
    READDIRPLUS_AUTO = 14;
    /// Direct I/O in parallel pieces.
    ASYNC_DIO = 15;
    /// Writes stay in the page cache first; the kernel keeps size and times.
    WRITEBACK_CACHE = 16;
    /// ENOSYS to OPEN means: no more of them.
    NO_OPEN_SUPPORT = 17;
    /// Lookups and listings of one directory at once.
    PARALLEL_DIROPS = 18;
    /// The server clears suid, sgid and capabilities, always.
    HANDLE_KILLPRIV = 19;
    /// The kernel checks POSIX ACLs.
    POSIX_ACL = 20;
    /// Reading the device after an abort is ECONNABORTED.
    ABORT_ERROR = 21;
    /// `max_pages` counts.
    MAX_PAGES = 22;
    /// READLINK's answers are cached.
    CACHE_SYMLINKS = 23;
    /// ENOSYS to OPENDIR means: no more of them.
    NO_OPENDIR_SUPPORT = 24;
    /// Cached pages go only when told.
    EXPLICIT_INVAL_DATA = 25;
    /// `map_alignment` counts (virtiofs).
    MAP_ALIGNMENT = 26;
    /// Directories may be mounts of their own.
    SUBMOUNTS = 27;
    /// The server clears suid, sgid and capabilities where the kernel says so (7.33).
    HANDLE_KILLPRIV_V2 = 28;
    /// The longer `fuse_setxattr_in` (7.33).
    SETXATTR_EXT = 29;
    /// `flags2` counts (7.36).
    INIT_EXT = 30;
    /// Reserved.
    INIT_RESERVED = 31;
    /// New files come with a security context (7.36).
    SECURITY_CTX = 32;
    /// DAX by inode (virtiofs).
    HAS_INODE_DAX = 33;
    /// New files come with the caller's group that the directory wants (7.39).
    CREATE_SUPP_GROUP = 34;
    /// Names can be expired (7.38).
    HAS_EXPIRE_ONLY = 35;
    /// Files of direct I/O may be mapped shared (7.39).
    DIRECT_IO_ALLOW_MMAP = 36;
    /// Passthrough (7.40).
    PASSTHROUGH = 37;
    /// No file handles for NFS and name_to_handle_at(2) (7.40).
    NO_EXPORT_SUPPORT = 38;
    /// Requests can be sent again (7.40).
    HAS_RESEND = 39;
    /// Idmapped mounts (7.41).
    ALLOW_IDMAP = 40;
    /// Requests by io_uring (7.42).
    OVER_IO_URING = 41;
    /// `request_timeout` counts (7.43).
    REQUEST_TIMEOUT = 42;
}

impl InitFlags {
    /// None.
    pub const NONE: Self = Self(0);

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// These and `other`'s.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// These without `other`'s.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// Those in both.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    /// From the two words of INIT; the second counts only if the first says so.
    pub const fn from_words(flags: u32, flags2: u32) -> Self {
        let low = flags as u64;
        match low & Self::INIT_EXT.0 {
            0 => Self(low),
            _ => Self(low | (flags2 as u64) << 32),
        }
    }
    /// The two words of INIT.
    pub const fn words(self) -> (u32, u32) {
        (self.0 as u32, (self.0 >> 32) as u32)
    }
}
