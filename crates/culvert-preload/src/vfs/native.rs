//! System calls of the kernel's own that looks at paths are made of.

use crate::memory::Path;
use crate::shadow::OwnedFd;
use culvert::Errno;
use culvert_sys::raw::general;
use culvert_sys::{nr, syscall};

/// openat2(2), close-on-exec.
pub fn open_restricted(
    directory: i32,
    path: Path<'_>,
    flags: u64,
    mode: u64,
    resolve: u64,
) -> Result<OwnedFd, Errno> {
    const O_CLOEXEC: u64 = 0o2000000;
    let how = [flags | O_CLOEXEC, mode, resolve];
    let arguments = [
        directory as usize,
        path.address(),
        how.as_ptr() as usize,
        24,
    ];
    // SAFETY: the path ends in NUL; `how` is a `struct open_how` of the length given.
    unsafe { syscall::call(nr::OPENAT2, arguments) }.map(|fd| OwnedFd::from_raw(fd as i32))
}

/// AT_SYMLINK_NOFOLLOW.
pub const AT_SYMLINK_NOFOLLOW: usize = 0x100;
/// AT_SYMLINK_FOLLOW.
pub const AT_SYMLINK_FOLLOW: usize = 0x400;
/// AT_EMPTY_PATH.
pub const AT_EMPTY_PATH: usize = 0x1000;

/// newfstatat(2).
pub fn stat_at(directory: i32, path: Path<'_>, flags: usize) -> Result<general::stat, Errno> {
    let mut out = core::mem::MaybeUninit::<general::stat>::zeroed();
    let arguments = [
        directory as usize,
        path.address(),
        out.as_mut_ptr() as usize,
        flags,
    ];
    // SAFETY: the path ends in NUL, the buffer is a `struct stat`, plain data.
    unsafe {
        syscall::call(nr::NEWFSTATAT, arguments)?;
        Ok(out.assume_init())
    }
}
