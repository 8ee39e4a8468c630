//! The file that lines are added to.

use crate::{Descriptor, Held, Keeper};
use alloc::format;
use core::fmt::Arguments;
use culvert::{Errno, Error, Result};
use culvert_sys::raw::general as linux;
use culvert_sys::{nr, syscall};

/// An open log.
pub struct Log(Held);

impl Log {
    /// Opens `path`, a regular file, for appending; makes it where it is missing, for its owner
    /// alone.
    pub fn open(path: &[u8], keeper: Keeper) -> Result<Self> {
        let text = [path, b"\0"].concat();
        let flags = linux::O_WRONLY
            | linux::O_APPEND
            | linux::O_CREAT
            | linux::O_CLOEXEC
            | linux::O_NOFOLLOW
            | linux::O_NONBLOCK;
        // SAFETY: the path ends in NUL.
        let fd = unsafe {
            let arguments = [text.as_ptr() as usize, flags as usize, 0o600];
            syscall::call(nr::OPEN, arguments)
        };
        let failed = |errno| Error::from(errno).within("the file of layer trace");
        let descriptor = Descriptor::from_raw(fd.map_err(failed)? as i32);
        let mut found = core::mem::MaybeUninit::<linux::stat>::zeroed();
        // SAFETY: the structure is plain data, which the kernel fills.
        let mode = unsafe {
            let arguments = [descriptor.raw() as usize, found.as_mut_ptr() as usize];
            syscall::call(nr::FSTAT, arguments).map_err(failed)?;
            found.assume_init().st_mode
        };
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
        // SAFETY: without arguments.
        let process = unsafe { syscall::raw(nr::GETPID, [0; 6]) };
        let line = format!("{process} {what}\n");
        let arguments = [self.0.raw() as usize, line.as_ptr() as usize, line.len()];
        // SAFETY: the kernel reads the line.
        let _ = unsafe { syscall::call(nr::WRITE, arguments) };
    }
}
