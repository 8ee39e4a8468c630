//! Opening what a stranger may have made: no links are followed, nothing but regular files and
//! directories is opened, and names are looked for in directories that are open already.

use crate::wrong;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW);

/// The directory at `path`, its last name no link.
pub fn directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = ALWAYS.union(OFlags::DIRECTORY);
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// The directory `name` in `dir`, made if there is none.
pub fn directory_made(dir: impl AsFd, name: &[u8]) -> io::Result<OwnedFd> {
    let name = OsStr::from_bytes(name);
    match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = ALWAYS.union(OFlags::DIRECTORY);
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// The regular file `name` in `dir`, to be read or, too, written.
pub fn file(dir: impl AsFd, name: &OsStr, write: bool) -> io::Result<File> {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    // Of a FIFO nobody waits for the other end.
    let flags = ALWAYS.union(access).union(OFlags::NONBLOCK);
    let file = File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(wrong(format!("{}: no regular file", name.display()))),
    }
}

/// The new file `name` in `dir`.
pub fn new_file(dir: impl AsFd, name: &OsStr) -> io::Result<File> {
    let new = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL);
    let mode = Mode::from_raw_mode(0o666);
    let made = rustix::fs::openat(dir, name, ALWAYS.union(new), mode)?;
    Ok(File::from(made))
}

/// Removes the name `name` in `dir`.
pub fn remove(dir: impl AsFd, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
}

/// The names in `dir`.
pub fn names(dir: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}
