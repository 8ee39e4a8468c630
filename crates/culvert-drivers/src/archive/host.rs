//! The system calls of the archive driver: everything it asks of the kernel is here.

pub use crate::descriptor::OwnedFd;
use alloc::ffi::CString;
use alloc::vec::Vec;
use culvert::{Errno, Shared, Timespec};
use culvert_sys::fd::CWD;
use culvert_sys::flags::{AtFlags, OFlags, Protection};
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::raw::general as linux;
use culvert_sys::{AsFd, fs, process};

/// `path` with the NUL that the kernel wants; `ENOENT` for a path with a NUL inside, as no such
/// file can exist.
pub fn terminated(path: &[u8]) -> Result<CString, Errno> {
    CString::new(path).map_err(|_| Errno::ENOENT)
}

fn open(path: &[u8], flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
    fs::openat(CWD, &terminated(path)?, flags | OFlags::CLOEXEC, mode)
}

/// Opens a file for reading. Does not hang on a FIFO (`O_NONBLOCK`) nor make a terminal the
/// controlling one.
pub fn open_read(path: &[u8]) -> Result<OwnedFd, Errno> {
    open(path, OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK, 0)
}

/// Makes a new file, mode 0600; `EEXIST` when anything has that name.
pub fn create_new(path: &[u8]) -> Result<OwnedFd, Errno> {
    open(
        path,
        OFlags::WRONLY | OFlags::CREAT | OFlags::EXCL | OFlags::NOFOLLOW,
        0o600,
    )
}

/// A new file without a name in the directory of `path`, mode 0600 (O_TMPFILE): gone with the
/// process unless [`name`] gives it one. `EOPNOTSUPP`, `EISDIR` or `ENOENT` where the file system
/// has no such files.
pub fn create_unnamed(path: &[u8]) -> Result<OwnedFd, Errno> {
    let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    let directory = if end == 0 { &b"/"[..] } else { &path[..end] };
    open(directory, OFlags::WRONLY | OFlags::TMPFILE, 0o600)
}

/// Gives a file of [`create_unnamed`] the name `path`; `EEXIST` when something has it.
pub fn name(file: impl AsFd, path: &[u8]) -> Result<(), Errno> {
    let link = terminated(alloc::format!("/proc/self/fd/{}", file.as_fd().raw()).as_bytes())?;
    fs::linkat(CWD, &link, CWD, &terminated(path)?, AtFlags::SYMLINK_FOLLOW)
}

/// What fstat(2) says, as far as it is used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// `st_mode`.
    pub mode: u32,
    /// `st_uid`.
    pub uid: u32,
    /// `st_size`, bytes.
    pub size: u64,
    /// Blocks of 4096 bytes that it takes.
    pub blocks: u64,
    /// `st_mtim`.
    pub mtime: Timespec,
    /// `st_dev` and `st_ino`.
    pub identity: (u64, u64),
}

impl Status {
    /// A regular file?
    pub const fn is_regular(&self) -> bool {
        self.mode & 0o170000 == 0o100000
    }

    /// A directory?
    pub const fn is_directory(&self) -> bool {
        self.mode & 0o170000 == 0o040000
    }

    /// Neither: a device, FIFO or socket?
    pub const fn is_special(&self) -> bool {
        !self.is_regular() && !self.is_directory()
    }
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
            identity: (stat.st_dev, stat.st_ino),
        }
    }
}

/// fstat(2).
pub fn status(file: impl AsFd) -> Result<Status, Errno> {
    fs::fstat(file).map(Into::into)
}

/// stat(2).
pub fn status_of(path: &[u8]) -> Result<Status, Errno> {
    fs::stat(&terminated(path)?).map(Into::into)
}

/// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read (pread(2)).
pub fn read_at(file: impl AsFd, mut offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buffer.len() {
        match fs::pread(&file, &mut buffer[done..], offset) {
            Ok(0) => break,
            Ok(count) => {
                done += count;
                offset += count as u64;
            }
            Err(Errno::EINTR) => {}
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Writes all of `bytes` (write(2)).
pub fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match fs::write(&file, bytes) {
            Ok(0) => return Err(Errno::EIO),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Asks the kernel to read ahead (posix_fadvise(2), POSIX_FADV_WILLNEED).
pub fn will_need(file: impl AsFd, offset: u64, length: u64) {
    let _ = fs::fadvise(file, offset, length, linux::POSIX_FADV_WILLNEED);
}

/// fsync(2).
pub fn sync(file: impl AsFd) -> Result<(), Errno> {
    fs::fsync(file)
}

/// rename(2).
pub fn rename(from: &[u8], to: &[u8]) -> Result<(), Errno> {
    fs::rename(&terminated(from)?, &terminated(to)?)
}

/// unlink(2).
pub fn unlink(path: &[u8]) -> Result<(), Errno> {
    fs::unlink(&terminated(path)?)
}

/// Makes `path` and its missing parents, mode 0700; fine when it is there already.
pub fn make_directories(path: &[u8]) -> Result<(), Errno> {
    let mut end = 0;
    while end < path.len() {
        end = path[end + 1..]
            .iter()
            .position(|&byte| byte == b'/')
            .map_or(path.len(), |next| end + 1 + next);
        match fs::mkdir(&terminated(&path[..end])?, 0o700) {
            Ok(()) | Err(Errno::EEXIST) => {}
            // A parent that we may not write to but that exists shows itself at the end.
            Err(Errno::EACCES | Errno::EROFS | Errno::EPERM) if end < path.len() => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The working directory (getcwd(2)); `ENOENT` when it was removed or lies outside the root.
pub fn current_directory() -> Result<Vec<u8>, Errno> {
    let mut path = alloc::vec![0; 4096];
    let length = fs::getcwd(&mut path)?;
    // The length counts the NUL.
    path.truncate(length.saturating_sub(1));
    if path.first() != Some(&b'/') {
        return Err(Errno::ENOENT);
    }
    Ok(path)
}

pub use process::{
    getegid as effective_group, geteuid as effective_user, getpid as process_number,
};

/// The time of day (CLOCK_REALTIME).
pub fn now() -> Timespec {
    let time = process::clock_gettime(linux::CLOCK_REALTIME);
    time.map_or_else(
        |_| Timespec::default(),
        |time| Timespec {
            seconds: time.tv_sec,
            nanoseconds: time.tv_nsec as u32,
        },
    )
}

/// The soft limit of address space in bytes (RLIMIT_AS), none when unlimited.
pub fn address_space_limit() -> Option<u64> {
    let [soft, _] = process::getrlimit(linux::RLIMIT_AS).ok()?;
    (soft != u64::MAX).then_some(soft)
}

/// A file mapped read-only (mmap(2)), unmapped when dropped.
///
/// The file is outside data: it may change or shrink at any time, and then a touch of the lost
/// pages raises SIGBUS.
#[derive(Debug)]
pub struct Mapped(Mapping);

impl Mapped {
    /// Maps the first `length` bytes of `file`, at least one.
    pub fn new(file: impl AsFd, length: u64) -> Result<Self, Errno> {
        let length = usize::try_from(length).map_err(|_| Errno::ENOMEM)?;
        Mapping::new(Of::file(&file), length, Protection::READ).map(Self)
    }

    /// The mapped bytes.
    pub fn shared(&self) -> Shared<'_> {
        // SAFETY: mapped readable for `length` bytes until drop, and `bytes` says who refers to
        // them.
        unsafe { Shared::new(self.0.start(), self.0.len()) }
    }

    /// The mapped bytes of a file that nobody changes any more.
    ///
    /// # Safety
    /// Nobody does, nor cuts it off, while it is mapped.
    pub unsafe fn constant(&self) -> &[u8] {
        // SAFETY: mapped as above, and as the caller says.
        unsafe { core::slice::from_raw_parts(self.0.start(), self.0.len()) }
    }
}

/// A number that nobody can guess (getrandom(2)); some number where the kernel has none yet.
pub fn random() -> u64 {
    let mut word = [0u8; 8];
    let _ = process::getrandom(&mut word, linux::GRND_NONBLOCK);
    u64::from_le_bytes(word)
}
