//! The system calls on files of their own and on the directory that holds them.

use super::host as files;
use crate::archive::host::{Status, read_at, status, terminated};
use crate::passthrough::{entries, times};
use crate::{Keeper, KeptFd, OwnedFd};
use alloc::{format, vec::Vec};
use culvert::{Errno, Error, Timespec};
use culvert_sys::fd::{self, AsFd, BorrowedFd, Command};
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, process};

/// `FALLOC_FL_KEEP_SIZE`.
pub const KEEP_SIZE: u32 = 1;
/// `FALLOC_FL_PUNCH_HOLE`, which goes with [`KEEP_SIZE`].
pub const PUNCH_HOLE: u32 = 2;
/// `FALLOC_FL_ZERO_RANGE`.
pub const ZERO_RANGE: u32 = 0x10;

/// fstatat(2) of `name` in `directory`, links not followed.
pub fn status_at(directory: impl AsFd, name: &[u8]) -> Result<Status, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    fs::fstatat(directory, &terminated(name)?, flags).map(Into::into)
}

/// Opens `name` in `directory`, close-on-exec, links not followed.
pub fn open_at(directory: impl AsFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    fs::openat(directory, &terminated(name)?, flags, 0o600)
}

/// unlinkat(2) of a file; what is not there is no error.
pub fn remove_at(directory: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    match fs::unlinkat(directory, &terminated(name)?, AtFlags::empty()) {
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

/// A file and an offset in it.
pub type Spot<'a> = (BorrowedFd<'a>, u64);

/// Copies `length` bytes between files: by copy_file_range(2), and what the kernel does not copy so
/// through this process's memory.
pub fn copy(from: Spot<'_>, to: Spot<'_>, length: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < length {
        let (mut source, mut target) = (from.1 + done, to.1 + done);
        let left = (length - done) as usize;
        match fs::copy_file_range(from.0, &mut source, to.0, &mut target, left) {
            Ok(0) => break,
            Ok(count) => done += count as u64,
            Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    let mut piece = alloc::vec![0; (length - done).min(64 << 10) as usize];
    while done < length {
        let wanted = piece.len().min((length - done) as usize);
        let count = read_at(from.0, from.1 + done, &mut piece[..wanted])?;
        if count == 0 {
            return Err(Errno::EIO);
        }
        files::write(to.0, &piece[..count], to.1 + done).1?;
        done += count as u64;
    }
    Ok(())
}

/// futimens(2): the time of modification.
pub fn set_mtime(fd: impl AsFd, time: Timespec) -> Result<(), Errno> {
    let times = times(None, Some(time));
    fs::utimensat(fd, None, Some(&times), AtFlags::empty())
}

/// utimensat(2): the same, of `name` in `directory`.
pub fn set_mtime_at(directory: impl AsFd, name: &[u8], time: Timespec) -> Result<(), Errno> {
    let (name, times) = (terminated(name)?, times(None, Some(time)));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    fs::utimensat(directory, Some(&name), Some(&times), flags)
}

/// lseek(2): the next data or hole from `offset` on; none when there is no more data.
pub fn seek(fd: impl AsFd, offset: u64, whence: u32) -> Result<Option<u64>, Errno> {
    match fs::seek(fd, offset as i64, whence) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::ENXIO) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether anybody but `fd` has its file open or mapped: a write lease is granted only where nobody
/// has (fcntl(2), `F_SETLEASE`; `check_conflicting_open`, fs/locks.c). When in doubt somebody has.
pub fn is_held(fd: OwnedFd) -> bool {
    // The lease ends with the descriptor. Who opens the file meanwhile makes the kernel send a
    // signal, by default SIGIO, which would end the program; SIGURG is ignored by default.
    fd::fcntl(&fd, Command::SETSIG, linux::SIGURG as usize).is_err()
        || fd::fcntl(&fd, Command::SETLEASE, linux::F_WRLCK as usize).is_err()
}

/// Whether the new descriptor `fd` tells that the process has so many that none should be kept
/// beside those that the program knows of: more than an eighth of what `RLIMIT_NOFILE` allows. A
/// handful is never too many.
pub fn is_scarce(fd: &OwnedFd) -> bool {
    const HANDFUL: i32 = 8;
    let fd = fd.raw();
    if fd < HANDFUL {
        return false;
    }
    process::prlimit(linux::RLIMIT_NOFILE, None).is_ok_and(|[soft, _]| fd as u64 >= soft / 8)
}

/// The names in `directory`.
pub fn list(directory: impl AsFd) -> culvert::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    entries(directory, 0, &mut |_, name| {
        names.push(name.to_vec());
        true
    })?;
    Ok(names)
}

/// What the name of the directory has more than that of the image. Names of file systems do not end
/// so.
pub const SUFFIX: &[u8] = b".files";

/// The directory of the files of their own.
pub struct Directory {
    held: KeptFd,
    /// Permission bits of new ones: the image's.
    mode: u32,
}

impl Directory {
    /// The directory beside the image `path`, open as `image`: none where there is none. `EACCES`
    /// for one that others might have made.
    pub fn open(path: &[u8], image: &OwnedFd, keeper: Keeper) -> culvert::Result<Option<Self>> {
        let found = match files::open_directory(&[path, SUFFIX].concat()) {
            Ok(found) => found,
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ENOTDIR | Errno::ELOOP) => return Err(not_ours("no directory")),
            Err(errno) => return Err(errno.into()),
        };
        let (image, found_status) = (status(image)?, status(&found)?);
        if found_status.uid != image.uid {
            return Err(not_ours("another user's"));
        }
        if image.mode & 0o077 == 0 && found_status.mode & 0o077 != 0 {
            return Err(not_ours("open to others (its mode must be 0700)"));
        }
        Ok(Some(Self {
            held: keeper.keep(found),
            mode: image.mode & 0o666,
        }))
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.held.fd()
    }

    /// Permission bits of new files.
    pub fn mode(&self) -> u32 {
        self.mode
    }
}

fn not_ours(what: &str) -> Error {
    Error::because(
        Errno::EACCES,
        format!("the directory of its mapped files is {what}"),
    )
}

/// Makes the directory beside the image `path`; one that is there is left for [`Directory::open`]
/// to judge.
pub fn make_directory(path: &[u8], mode: u32) -> culvert::Result<()> {
    let path = [path, SUFFIX].concat();
    match files::make_directory(&path) {
        Ok(()) if mode != 0o700 => {
            let made = files::open_directory(&path)?;
            Ok(fs::fchmod(&made, mode)?)
        }
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::fd::AsRawFd};

    /// Files of /proc are not copied inside the kernel: what it refuses goes through memory, all of
    /// it, and what is missing is an error.
    #[test]
    fn what_the_kernel_does_not_copy_is_copied_all_the_same() {
        let text = fs::read("/proc/version").expect("it is there");
        let from = fs::File::open("/proc/version").expect("it is there");
        let path = std::env::temp_dir().join(format!("culvert-copied-{}", std::process::id()));
        let to = fs::File::create(&path).expect("a file");
        let spot = |file: &fs::File, at| (BorrowedFd::number(file.as_raw_fd()), at);
        let length = text.len() as u64;
        let copied = copy(spot(&from, 0), spot(&to, 3), length);
        let beyond = copy(spot(&from, 0), spot(&to, 3), length + 1);
        let found = fs::read(&path).expect("it was written");
        fs::remove_file(&path).expect("it is there");
        assert_eq!((copied, beyond), (Ok(()), Err(Errno::EIO)));
        assert_eq!(found, [b"\0\0\0", &text[..]].concat());
    }
}
