//! System calls of the kernel's own that looks at paths are made of.

use culvert::Errno;
use culvert_run::memory::Path;
use culvert_sys::flags::AtFlags;
use culvert_sys::raw::general::{O_CLOEXEC, open_how, stat};
use culvert_sys::{BorrowedFd, OwnedFd, fs};

/// openat2(2), close-on-exec.
pub fn open_restricted(
    directory: i32,
    path: Path<'_>,
    flags: u64,
    mode: u64,
    resolve: u64,
) -> Result<OwnedFd, Errno> {
    let how = open_how {
        flags: flags | u64::from(O_CLOEXEC),
        mode,
        resolve,
    };
    fs::open_how(BorrowedFd::number(directory), path.c_str(), &how)
}

/// AT_SYMLINK_NOFOLLOW.
pub const AT_SYMLINK_NOFOLLOW: usize = 0x100;
/// AT_SYMLINK_FOLLOW.
pub const AT_SYMLINK_FOLLOW: usize = 0x400;
/// AT_EMPTY_PATH.
pub const AT_EMPTY_PATH: usize = 0x1000;

/// newfstatat(2).
pub fn stat_at(directory: i32, path: Path<'_>, flags: usize) -> Result<stat, Errno> {
    let (directory, flags) = (
        BorrowedFd::number(directory),
        AtFlags::from_bits(flags as u32),
    );
    fs::fstatat(directory, path.c_str(), flags)
}
