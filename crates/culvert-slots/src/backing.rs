//! Backing files, for passthrough: the server registers a descriptor, clients open the file behind
//! it. A link in the mount directory says where that is: the server's process, the number of the
//! descriptor there, and device and inode, by which a client knows the file.
//!
//! /proc/PID/fd of a process of one's own user can be looked into without any right over the
//! process (`PTRACE_MODE_READ_FSCREDS`, ptrace(2)); pidfd_getfd(2) wants one, which Yama denies.

use alloc::{ffi::CString, format, vec::Vec};
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::raw::general::{S_IFMT, S_IFREG};
use culvert_sys::trust::Opened;
use culvert_sys::{AsFd, Errno, OwnedFd, fd::CWD, fs, process};

fn c_string(text: impl Into<Vec<u8>>) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| Errno::EINVAL)
}

fn name(id: i32) -> Result<CString, Errno> {
    c_string(format!("backing.{id}"))
}

/// Descriptor `number` of this process is on the backing file `id` of the mount in `directory`.
///
/// # Errors
/// `EINVAL`: it is no regular file; of symlinkat(2).
pub fn publish(directory: &Opened, id: i32, number: i32) -> Result<(), Errno> {
    let found = fs::fstat(culvert_sys::BorrowedFd::number(number))?;
    if found.st_mode & S_IFMT != S_IFREG {
        return Err(Errno::EINVAL);
    }
    let (process, device, inode) = (process::getpid(), found.st_dev, found.st_ino);
    let said = c_string(format!("{process} {number} {device} {inode}"))?;
    fs::symlinkat(&said, directory.as_fd(), &name(id)?)
}

/// There is no backing file `id` any more.
///
/// # Errors
/// Of unlinkat(2).
pub fn withdraw(directory: &Opened, id: i32) -> Result<(), Errno> {
    fs::unlinkat(directory.as_fd(), &name(id)?, AtFlags::empty())
}

/// The backing file `id` of the mount in `directory`, by `O_PATH`.
///
/// # Errors
/// `ENOENT`: there is none; `EOPNOTSUPP`: the server's descriptors cannot be looked into.
pub fn open(directory: &Opened, id: i32) -> Result<OwnedFd, Errno> {
    let said = fs::read_link(directory.as_fd(), &name(id)?)?;
    let said = str::from_utf8(&said).map_err(|_| Errno::EIO)?;
    let mut words = said.split(' ').map(str::parse::<u64>);
    let mut next = || words.next().and_then(Result::ok).ok_or(Errno::EIO);
    let (process, number, device, inode) = (next()?, next()?, next()?, next()?);
    let path = c_string(format!("/proc/{process}/fd/{number}"))?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    // Of another PID namespace, or behind a /proc that hides others.
    let file = fs::openat(CWD, &path, flags, 0).map_err(|_| Errno::EOPNOTSUPP)?;
    let found = fs::fstat(&file)?;
    let is_it =
        found.st_mode & S_IFMT == S_IFREG && (found.st_dev, found.st_ino) == (device, inode);
    is_it.then_some(file).ok_or(Errno::EOPNOTSUPP)
}
