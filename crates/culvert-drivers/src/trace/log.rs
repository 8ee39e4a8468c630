//! The file that lines are added to.

use crate::{Keeper, KeptFd};
use alloc::ffi::CString;
use alloc::format;
use core::fmt::Arguments;
use culvert::{Errno, Error, Result};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, process};

/// An open log.
pub struct Log(KeptFd);

impl Log {
    /// Opens `path`, a regular file, for appending; makes it where it is missing, for its owner
    /// alone.
    pub fn open(path: &[u8], keeper: Keeper) -> Result<Self> {
        let path = CString::new(path).map_err(|_| Errno::ENOENT)?;
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREAT
            | OFlags::CLOEXEC
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK;
        let failed = |errno| Error::from(errno).within("the file of layer trace");
        let descriptor = fs::open(&path, flags, 0o600).map_err(failed)?;
        let mode = fs::fstat(&descriptor).map_err(failed)?.st_mode;
        match mode & linux::S_IFMT {
            linux::S_IFREG => Ok(Self(keeper.keep(descriptor))),
            _ => Err(Error::because(
                Errno::EINVAL,
                "the file of layer trace is no regular file",
            )),
        }
    }

    /// Adds a line, with the process before it. One write: lines of several processes do not mix.
    pub fn line(&self, what: Arguments<'_>) {
        let line = format!("{} {what}\n", process::getpid());
        let _ = fs::write(BorrowedFd::number(self.0.raw()), line.as_bytes());
    }
}
