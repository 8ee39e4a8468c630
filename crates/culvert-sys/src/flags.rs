//! Flags of system calls, a type for each place where they go.

use crate::table::Word;
use core::ops::BitOr;
use linux_raw_sys::general as linux;

macro_rules! flags {
    ($($(#[$note:meta])* $type:ident { $($name:ident = $raw:ident),* $(,)? })*) => { $(
        $(#[$note])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $type(u32);

        impl $type {
            $(#[doc = concat!("`", stringify!($raw), "`.")] pub const $name: Self = Self(linux::$raw);)*

            /// None.
            #[inline]
            pub const fn empty() -> Self {
                Self(0)
            }

            /// These bits, those too that only a later kernel knows.
            #[inline]
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// As the kernel takes them.
            #[inline]
            pub const fn bits(self) -> u32 {
                self.0
            }

            /// Both.
            #[inline]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Whether all of `other` are among these.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl BitOr for $type {
            type Output = Self;
            #[inline]
            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl Word for $type {
            #[inline]
            fn word(&self) -> usize {
                self.0 as usize
            }
        }
    )* };
}

flags! {
    /// Of open(2).
    OFlags {
        RDONLY = O_RDONLY, WRONLY = O_WRONLY, RDWR = O_RDWR, ACCMODE = O_ACCMODE, CREAT = O_CREAT,
        EXCL = O_EXCL, NOCTTY = O_NOCTTY, TRUNC = O_TRUNC, APPEND = O_APPEND,
        NONBLOCK = O_NONBLOCK, DSYNC = O_DSYNC, SYNC = O_SYNC, DIRECT = O_DIRECT,
        LARGEFILE = O_LARGEFILE, DIRECTORY = O_DIRECTORY, NOFOLLOW = O_NOFOLLOW,
        NOATIME = O_NOATIME, CLOEXEC = O_CLOEXEC, PATH = O_PATH, TMPFILE = O_TMPFILE,
    }
    /// Of calls on a directory and a name in it.
    AtFlags {
        SYMLINK_NOFOLLOW = AT_SYMLINK_NOFOLLOW, SYMLINK_FOLLOW = AT_SYMLINK_FOLLOW,
        EMPTY_PATH = AT_EMPTY_PATH, REMOVEDIR = AT_REMOVEDIR, EACCESS = AT_EACCESS,
        NO_AUTOMOUNT = AT_NO_AUTOMOUNT, RECURSIVE = AT_RECURSIVE,
        STATX_FORCE_SYNC = AT_STATX_FORCE_SYNC,
    }
    /// Of openat2(2).
    Resolve {
        NO_XDEV = RESOLVE_NO_XDEV, NO_MAGICLINKS = RESOLVE_NO_MAGICLINKS,
        NO_SYMLINKS = RESOLVE_NO_SYMLINKS, BENEATH = RESOLVE_BENEATH, IN_ROOT = RESOLVE_IN_ROOT,
        CACHED = RESOLVE_CACHED,
    }
    /// Of renameat2(2).
    RenameFlags {
        NOREPLACE = RENAME_NOREPLACE, EXCHANGE = RENAME_EXCHANGE, WHITEOUT = RENAME_WHITEOUT,
    }
    /// What may be done with mapped memory.
    Protection { READ = PROT_READ, WRITE = PROT_WRITE, EXEC = PROT_EXEC }
}
