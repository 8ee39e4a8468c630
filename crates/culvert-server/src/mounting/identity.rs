//! Which mount it is, whatever path leads to it.

use rustix::fs::{AtFlags, Statx, StatxFlags};
use std::{ffi::OsStr, fmt, os::fd::BorrowedFd};

/// Which mount: the same path may lead to another one the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountIdentity {
    /// Major and minor number of its file system's device.
    pub device: (u32, u32),
    /// Its number in mount tables; none before Linux 5.8, which does not tell it by descriptor.
    pub mount: Option<u64>,
}

impl fmt::Display for MountIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device.0, self.device.1)
    }
}

impl MountIdentity {
    /// Whether both are the same mount, as far as both say.
    pub fn is(&self, other: &Self) -> bool {
        let numbers = self.mount.zip(other.mount);
        self.device == other.device && numbers.is_none_or(|(one, other)| one == other)
    }

    /// The mount that `found` says a file is on.
    pub(super) const fn of(found: &Statx) -> Self {
        const MNT_ID: u32 = 0x1000;
        Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            mount: match found.stx_mask & MNT_ID {
                0 => None,
                _ => Some(found.stx_mnt_id),
            },
        }
    }

    /// The mount that the file open in `file` is on.
    ///
    /// # Errors
    /// Of statx(2).
    pub fn holding(file: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        ask(file, OsStr::new(""), AtFlags::EMPTY_PATH).map(|found| Self::of(&found))
    }
}

/// statx(2) that asks for nothing: the kernel then tells device and mount by itself, also of a
/// mount whose server is gone, or serves others only (`fuse_getattr`, fs/fuse/dir.c).
pub(super) fn ask(at: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> rustix::io::Result<Statx> {
    let flags =
        flags | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(at, name, flags, StatxFlags::empty())
}
