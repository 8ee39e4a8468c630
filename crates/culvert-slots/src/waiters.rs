//! Who waits for an open file to become ready (`FUSE_NOTIFY_POLL`): a FIFO for each, in the mount
//! directory, which everybody finds who is told of it. Its name has the number by which the server
//! was told of the file (`kh` of POLL), and who has made it.

use alloc::{boxed::Box, ffi::CString, format, vec::Vec};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::raw::general::S_IFIFO;
use culvert_sys::trust::{self, Opened};
use culvert_sys::{AsFd, Errno, OwnedFd, fd, fs, own_descriptors, process};

use crate::{Held, open_fifo};

/// Bytes of a listing that are read at once.
const LISTED: usize = 4096;

/// How many were made in this process.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A FIFO that is readable when the file may have become ready; its name ends with this.
pub(crate) struct Waiter<H> {
    fifo: H,
    directory: CString,
    name: CString,
    /// A child of the process that has made it does not take its name away.
    process: u32,
}

impl<H: Held> Held for Waiter<H> {
    fn number(&self) -> i32 {
        self.fifo.number()
    }
}

impl<H> Drop for Waiter<H> {
    fn drop(&mut self) {
        if self.process == process::getpid()
            && let Ok(directory) = trust::directory(&self.directory, trust::user())
        {
            let _ = fs::unlinkat(&directory, &self.name, AtFlags::empty());
        }
    }
}

/// How the names of those for `number` begin.
fn names_of(number: u64) -> Vec<u8> {
    format!("poll.{number:016x}.").into_bytes()
}

/// One for `number` in the mount directory `directory`, which `keep` holds.
pub(crate) fn make<H: Held>(
    directory: &CStr,
    number: u64,
    keep: &dyn Fn(OwnedFd) -> Result<H, Errno>,
) -> Result<Box<Waiter<H>>, Errno> {
    let opened = trust::directory(directory, trust::user()).map_err(|why| why.errno())?;
    let process = process::getpid();
    loop {
        let made = MADE.fetch_add(1, Relaxed);
        let mut name = names_of(number);
        name.extend_from_slice(format!("{process}.{made}").as_bytes());
        let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
        match fs::mknodat(&opened, &name, S_IFIFO | 0o600, 0) {
            // Of a process with this number in another namespace, or before this one.
            Err(Errno::EEXIST) => continue,
            made => made?,
        }
        // The program's umask may forbid what its owner may.
        let opened = fs::fchmodat(&opened, &name, 0o600).and_then(|()| open_fifo(&opened, &name));
        let remove = || {
            if let Ok(directory) = trust::directory(directory, trust::user()) {
                let _ = fs::unlinkat(&directory, &name, AtFlags::empty());
            }
        };
        let fifo = opened.and_then(keep).inspect_err(|_| remove())?;
        return Ok(Box::new(Waiter {
            fifo,
            directory: directory.into(),
            name,
            process,
        }));
    }
}

/// One that nobody tells, for the server is gone, and perhaps its mount directory: who waits asks
/// first, and hears so.
pub(crate) fn untold<H: Held>(keep: &dyn Fn(OwnedFd) -> Result<H, Errno>) -> Result<Box<H>, Errno> {
    let (end, _other) = fd::pipe(OFlags::CLOEXEC.bits())?;
    let path = CString::new(format!("{}{}", own_descriptors::directory(), end.raw()));
    let path = path.map_err(|_| Errno::EINVAL)?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fifo = fs::openat(fd::CWD, &path, flags, 0)?;
    Ok(Box::new(keep(fifo)?))
}

/// The file that the server knows by `number` may have become ready: whoever waits for it in the
/// mount of `directory` is told. None: this is so of all files, for the server is gone.
pub fn wake(directory: &Opened, number: Option<u64>) {
    let start = number.map_or_else(|| b"poll.".to_vec(), names_of);
    for name in names(directory, &start) {
        // Who was killed has left his.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(directory, &name, flags, 0) {
            // Written for reading too: else who goes meanwhile would be told by SIGPIPE.
            Ok(_waits) => {
                let _ = open_fifo(directory, &name).and_then(|fifo| fs::write(&fifo, &[0]));
            }
            Err(Errno::ENXIO) => {
                let _ = fs::unlinkat(directory, &name, AtFlags::empty());
            }
            Err(_) => {}
        }
    }
}

/// The names in `directory` that begin with `start`.
fn names(directory: &Opened, start: &[u8]) -> Vec<CString> {
    let mut found = Vec::new();
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listed) = fs::openat(directory.as_fd(), c".", flags, 0) else {
        return found;
    };
    let mut buffer = [0; LISTED];
    while let Ok(length @ 1..) = fs::getdents64(&listed, &mut buffer) {
        let mut rest = buffer.get(..length).unwrap_or_default();
        // `struct linux_dirent64`: the record's length, behind it its kind and its name.
        while let Some(&[a, b, _, ref name @ ..]) = rest.get(16..) {
            let name = CStr::from_bytes_until_nul(name).unwrap_or_default();
            if name.to_bytes().starts_with(start) {
                found.push(name.into());
            }
            let length = usize::from(u16::from_ne_bytes([a, b])).max(1);
            rest = rest.get(length..).unwrap_or_default();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use culvert_sys::raw::general::O_NONBLOCK;
    use std::os::unix::fs::DirBuilderExt;

    fn bytes(waiter: &dyn Held) -> usize {
        let fifo = culvert_sys::BorrowedFd::number(waiter.number());
        fs::read(fifo, &mut [0; 16]).unwrap_or(0)
    }

    #[test]
    fn who_waits_for_a_number_is_told_of_that_one_alone() {
        let path = std::env::temp_dir().join(format!("culvert-waiters-{}", process::getpid()));
        let _ = std::fs::remove_dir_all(&path);
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).create(&path).unwrap();
        let directory = CString::new(path.to_str().unwrap()).unwrap();
        let opened = trust::directory(&directory, trust::user()).unwrap();
        let made = |number| make(&directory, number, &|fifo| Ok(fifo)).unwrap();
        let (one, same, other) = (made(7), made(7), made(0x77));
        wake(&opened, Some(7));
        assert_eq!([bytes(&*one), bytes(&*same), bytes(&*other)], [1, 1, 0]);
        wake(&opened, None);
        assert_eq!([bytes(&*one), bytes(&*same), bytes(&*other)], [1, 1, 1]);
        let count = || std::fs::read_dir(&path).unwrap().count();
        assert_eq!(count(), 3);
        drop(one);
        assert_eq!(count(), 2);
        // As of a process that was killed.
        let left = culvert_sys::fd::fcntl(
            culvert_sys::BorrowedFd::number(same.number()),
            culvert_sys::fd::Command::GETFL,
            0,
        );
        assert!(left.is_ok_and(|flags| flags & O_NONBLOCK as usize != 0));
        let name = same.name.clone();
        let mut same = same;
        same.process = 0;
        drop(same);
        assert_eq!(count(), 2);
        wake(&opened, Some(7));
        assert!(!path.join(name.to_str().unwrap()).exists());
        drop(other);
        assert_eq!(count(), 0);
        std::fs::remove_dir(&path).unwrap();
    }
}
