//! The system calls on files of their own and on the directory that holds them.

use super::host as files;
use super::host::terminated;
use crate::{Held, Keeper, OwnedFd};
use alloc::format;
use culvert::{Errno, Error, Shared, Timespec};
use culvert_sys::fd::{self, BorrowedFd, Command};
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, process};

/// `FALLOC_FL_KEEP_SIZE`.
pub const KEEP_SIZE: u32 = 1;
/// `FALLOC_FL_PUNCH_HOLE`, which goes with [`KEEP_SIZE`].
pub const PUNCH_HOLE: u32 = 2;

/// What is to be known of a file.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// `st_mode`.
    pub mode: u32,
    /// `st_uid`.
    pub uid: u32,
    /// Bytes.
    pub size: u64,
    /// Blocks of [`BLOCK`](super::layout::BLOCK) bytes.
    pub blocks: u64,
    /// `st_mtim`.
    pub mtime: Timespec,
}

impl From<linux::stat> for Status {
    fn from(stat: linux::stat) -> Self {
        Self {
            mode: stat.st_mode,
            uid: stat.st_uid,
            size: stat.st_size as u64,
            blocks: (stat.st_blocks as u64).div_ceil(8),
            mtime: Timespec {
                seconds: stat.st_mtime as i64,
                nanoseconds: stat.st_mtime_nsec as u32,
            },
        }
    }
}

/// fstat(2).
pub fn status(fd: i32) -> Result<Status, Errno> {
    fs::fstat(BorrowedFd::number(fd)).map(Into::into)
}

/// fstatat(2) of `name` in `directory`, links not followed.
pub fn status_at(directory: i32, name: &[u8]) -> Result<Status, Errno> {
    let directory = BorrowedFd::number(directory);
    fs::fstatat(directory, &terminated(name)?, AtFlags::SYMLINK_NOFOLLOW).map(Into::into)
}

/// Opens `name` in `directory`, close-on-exec, links not followed.
pub fn open_at(directory: i32, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    fs::openat(
        BorrowedFd::number(directory),
        &terminated(name)?,
        flags,
        0o600,
    )
}

/// unlinkat(2) of a file; what is not there is no error.
pub fn remove_at(directory: i32, name: &[u8]) -> Result<(), Errno> {
    let name = terminated(name)?;
    match fs::unlinkat(BorrowedFd::number(directory), &name, AtFlags::empty()) {
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

/// pwrite(2) of `bytes`: how many were written, and why not all.
pub fn write(fd: i32, bytes: &[u8], offset: u64) -> (usize, Result<(), Errno>) {
    let mut done = 0;
    while done < bytes.len() {
        let offset = offset + done as u64;
        match fs::pwrite(BorrowedFd::number(fd), &bytes[done..], offset) {
            Ok(0) => return (done, Err(Errno::ENOSPC)),
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            Err(errno) => return (done, Err(errno)),
        }
    }
    (done, Ok(()))
}

/// [`write`] of memory that others may change meanwhile.
pub fn write_shared(fd: i32, bytes: Shared<'_>, offset: u64) -> Result<(), Errno> {
    let (mut done, mut piece) = (0, alloc::vec![0; bytes.len().min(64 << 10)]);
    while done < bytes.len() {
        let count = bytes.part(done, piece.len()).copy_to(&mut piece);
        write(fd, &piece[..count], offset + done as u64).1?;
        done += count;
    }
    Ok(())
}

/// copy_file_range(2) of `length` bytes between files: how many were copied before the kernel had
/// enough of it.
pub fn copy(from: (i32, u64), to: (i32, u64), length: u64) -> u64 {
    let mut done = 0;
    while done < length {
        let (mut source, mut target) = (from.1 + done, to.1 + done);
        let (from, to) = (BorrowedFd::number(from.0), BorrowedFd::number(to.0));
        let left = (length - done) as usize;
        match fs::copy_file_range(from, &mut source, to, &mut target, left) {
            Ok(0) => break,
            Ok(count) => done += count as u64,
            Err(Errno::EINTR) => {}
            Err(_) => break,
        }
    }
    done
}

/// pread(2).
pub fn read(fd: i32, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    loop {
        match fs::pread(BorrowedFd::number(fd), buffer, offset) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// ftruncate(2).
pub fn set_size(fd: i32, size: u64) -> Result<(), Errno> {
    fs::ftruncate(BorrowedFd::number(fd), size)
}

/// futimens(2): the time of modification.
pub fn set_mtime(fd: i32, time: Timespec) -> Result<(), Errno> {
    let times = of_modification(time);
    fs::utimensat(BorrowedFd::number(fd), None, Some(&times), AtFlags::empty())
}

/// utimensat(2): the same, of `name` in `directory`.
pub fn set_mtime_at(directory: i32, name: &[u8], time: Timespec) -> Result<(), Errno> {
    let (directory, name) = (BorrowedFd::number(directory), terminated(name)?);
    let times = of_modification(time);
    fs::utimensat(
        directory,
        Some(&name),
        Some(&times),
        AtFlags::SYMLINK_NOFOLLOW,
    )
}

/// Leaves the time of access as it is.
fn of_modification(time: Timespec) -> fs::Times {
    let omitted = linux::timespec {
        tv_sec: 0,
        tv_nsec: linux::UTIME_OMIT.into(),
    };
    let given = linux::timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.into(),
    };
    [omitted, given]
}

/// lseek(2): the next data or hole from `offset` on; none when there is no more data.
pub fn seek(fd: i32, offset: u64, whence: u32) -> Result<Option<u64>, Errno> {
    match fs::seek(BorrowedFd::number(fd), offset as i64, whence) {
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
pub fn is_scarce(fd: i32) -> bool {
    const HANDFUL: i32 = 8;
    if fd < HANDFUL {
        return false;
    }
    process::prlimit(linux::RLIMIT_NOFILE, None).is_ok_and(|[soft, _]| fd as u64 >= soft / 8)
}

/// The names in `directory`.
pub fn list(directory: i32) -> Result<alloc::vec::Vec<alloc::vec::Vec<u8>>, Errno> {
    let here = open_at(directory, b".", OFlags::DIRECTORY)?;
    let (mut names, mut buffer) = (alloc::vec::Vec::new(), alloc::vec![0u8; 4096]);
    loop {
        let got = fs::getdents64(&here, &mut buffer)?;
        if got == 0 {
            return Ok(names);
        }
        let mut at = 0;
        // `struct linux_dirent64`: 8 + 8 + 2 (its length) + 1 bytes, then the name.
        while let Some(entry) = buffer.get(at..got).filter(|entry| entry.len() > 19) {
            let length = usize::from(u16::from_ne_bytes([entry[16], entry[17]])).max(20);
            let name = &entry[19..length.min(entry.len())];
            let end = name.iter().position(|&byte| byte == 0);
            names.push(name[..end.unwrap_or(name.len())].to_vec());
            at += length;
        }
    }
}

/// What the name of the directory has more than that of the image. Names of file systems do not end
/// so.
pub const SUFFIX: &[u8] = b".files";

/// The directory of the files of their own.
pub struct Directory {
    held: Held,
    /// Permission bits of new ones: the image's.
    mode: u32,
}

impl Directory {
    /// The directory beside the image `path`, open as `image`: none where there is none. `EACCES`
    /// for one that others might have made.
    pub fn open(path: &[u8], image: i32, keeper: Keeper) -> culvert::Result<Option<Self>> {
        let found = match files::open_directory(&[path, SUFFIX].concat()) {
            Ok(found) => found,
            Err(Errno::ENOENT) => return Ok(None),
            Err(Errno::ENOTDIR | Errno::ELOOP) => return Err(not_ours("no directory")),
            Err(errno) => return Err(errno.into()),
        };
        let (image, found_status) = (status(image)?, status(found.raw())?);
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
    pub fn fd(&self) -> i32 {
        self.held.raw()
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
            Ok(files::change_mode(made.raw(), mode)?)
        }
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
