//! The system calls of the archive driver: everything it asks of the kernel is here.

pub use crate::descriptor::Descriptor;
use alloc::vec::Vec;
use culvert::{Errno, Timespec};
use culvert_sys::raw::general as linux;
use culvert_sys::{nr, syscall};

/// `path` with the NUL that the kernel wants; `ENOENT` for a path with a NUL inside, as no such
/// file can exist.
fn terminated(path: &[u8]) -> Result<Vec<u8>, Errno> {
    if path.contains(&0) {
        return Err(Errno::ENOENT);
    }
    let mut owned = Vec::with_capacity(path.len() + 1);
    owned.extend_from_slice(path);
    owned.push(0);
    Ok(owned)
}

fn open(path: &[u8], flags: u32, mode: u32) -> Result<Descriptor, Errno> {
    let path = terminated(path)?;
    // SAFETY: the path is NUL-terminated and outlives the call.
    let fd = unsafe {
        syscall::call(
            nr::OPENAT,
            [
                linux::AT_FDCWD as usize,
                path.as_ptr() as usize,
                flags as usize,
                mode as usize,
            ],
        )
    }?;
    Ok(Descriptor::from_raw(fd as i32))
}

/// Opens a file for reading. Does not hang on a FIFO (`O_NONBLOCK`) nor make a terminal the
/// controlling one.
pub fn open_read(path: &[u8]) -> Result<Descriptor, Errno> {
    open(
        path,
        linux::O_RDONLY | linux::O_CLOEXEC | linux::O_NOCTTY | linux::O_NONBLOCK,
        0,
    )
}

/// Makes a new file, mode 0600; `EEXIST` when anything has that name.
pub fn create_new(path: &[u8]) -> Result<Descriptor, Errno> {
    open(
        path,
        linux::O_WRONLY | linux::O_CREAT | linux::O_EXCL | linux::O_CLOEXEC | linux::O_NOFOLLOW,
        0o600,
    )
}

/// A new file without a name in the directory of `path`, mode 0600 (O_TMPFILE): gone with the
/// process unless [`name`] gives it one. `EOPNOTSUPP`, `EISDIR` or `ENOENT` where the file system
/// has no such files.
pub fn create_unnamed(path: &[u8]) -> Result<Descriptor, Errno> {
    let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    let directory = if end == 0 { &b"/"[..] } else { &path[..end] };
    open(
        directory,
        linux::O_WRONLY | linux::O_TMPFILE | linux::O_CLOEXEC,
        0o600,
    )
}

/// Gives a file of [`create_unnamed`] the name `path`; `EEXIST` when something has it.
pub fn name(file: &Descriptor, path: &[u8]) -> Result<(), Errno> {
    let link = terminated(alloc::format!("/proc/self/fd/{}", file.raw()).as_bytes())?;
    let path = terminated(path)?;
    let here = linux::AT_FDCWD as usize;
    let arguments = [
        here,
        link.as_ptr() as usize,
        here,
        path.as_ptr() as usize,
        linux::AT_SYMLINK_FOLLOW as usize,
    ];
    // SAFETY: both paths are NUL-terminated and outlive the call.
    unsafe { syscall::call(nr::LINKAT, arguments) }.map(drop)
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
}

impl From<linux::stat> for Status {
    fn from(stat: linux::stat) -> Self {
        Self {
            mode: stat.st_mode,
            uid: stat.st_uid,
            size: stat.st_size as u64,
            mtime: Timespec {
                seconds: stat.st_mtime as i64,
                nanoseconds: stat.st_mtime_nsec as u32,
            },
            identity: (stat.st_dev, stat.st_ino),
        }
    }
}

/// fstat(2).
pub fn status(file: &Descriptor) -> Result<Status, Errno> {
    // SAFETY: `stat` is plain data for which zero is a value.
    let mut stat: linux::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel fills the struct that we own.
    unsafe {
        syscall::call(
            nr::FSTAT,
            [file.raw() as usize, core::ptr::from_mut(&mut stat) as usize],
        )
    }?;
    Ok(stat.into())
}

/// stat(2).
pub fn status_of(path: &[u8]) -> Result<Status, Errno> {
    let path = terminated(path)?;
    // SAFETY: `stat` is plain data for which zero is a value.
    let mut stat: linux::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the path is NUL-terminated; the kernel fills the struct that we own.
    unsafe {
        syscall::call(
            nr::STAT,
            [
                path.as_ptr() as usize,
                core::ptr::from_mut(&mut stat) as usize,
            ],
        )
    }?;
    Ok(stat.into())
}

/// Reads at `offset` until `buffer` is full or the file ends; returns the bytes read (pread(2)).
pub fn read_at(file: &Descriptor, mut offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buffer.len() {
        let rest = &mut buffer[done..];
        // SAFETY: the kernel writes at most `rest.len()` bytes into `rest`.
        let got = unsafe {
            syscall::call(
                nr::PREAD64,
                [
                    file.raw() as usize,
                    rest.as_mut_ptr() as usize,
                    rest.len(),
                    offset as usize,
                ],
            )
        };
        match got {
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
pub fn write_all(file: &Descriptor, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        // SAFETY: the kernel reads at most `bytes.len()` bytes from `bytes`.
        match unsafe {
            syscall::call(
                nr::WRITE,
                [file.raw() as usize, bytes.as_ptr() as usize, bytes.len()],
            )
        } {
            Ok(0) => return Err(Errno::EIO),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Asks the kernel to read ahead (posix_fadvise(2), POSIX_FADV_WILLNEED).
pub fn will_need(file: &Descriptor, offset: u64, length: u64) {
    const WILL_NEED: usize = 3;
    // SAFETY: touches no memory of ours.
    let _ = unsafe {
        syscall::call(
            nr::FADVISE64,
            [
                file.raw() as usize,
                offset as usize,
                length as usize,
                WILL_NEED,
            ],
        )
    };
}

/// fsync(2).
pub fn sync(file: &Descriptor) -> Result<(), Errno> {
    // SAFETY: touches no memory of ours.
    unsafe { syscall::call(nr::FSYNC, [file.raw() as usize]) }.map(drop)
}

/// rename(2).
pub fn rename(from: &[u8], to: &[u8]) -> Result<(), Errno> {
    let (from, to) = (terminated(from)?, terminated(to)?);
    // SAFETY: both paths are NUL-terminated and outlive the call.
    unsafe { syscall::call(nr::RENAME, [from.as_ptr() as usize, to.as_ptr() as usize]) }.map(drop)
}

/// unlink(2).
pub fn unlink(path: &[u8]) -> Result<(), Errno> {
    let path = terminated(path)?;
    // SAFETY: the path is NUL-terminated and outlives the call.
    unsafe { syscall::call(nr::UNLINK, [path.as_ptr() as usize]) }.map(drop)
}

/// Makes `path` and its missing parents, mode 0700; fine when it is there already.
pub fn make_directories(path: &[u8]) -> Result<(), Errno> {
    let mut end = 0;
    while end < path.len() {
        end = path[end + 1..]
            .iter()
            .position(|&byte| byte == b'/')
            .map_or(path.len(), |next| end + 1 + next);
        let part = terminated(&path[..end])?;
        // SAFETY: the path is NUL-terminated and outlives the call.
        match unsafe { syscall::call(nr::MKDIR, [part.as_ptr() as usize, 0o700]) } {
            Ok(_) | Err(Errno::EEXIST) => {}
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
    // SAFETY: the kernel writes at most `path.len()` bytes into `path`.
    let length = unsafe { syscall::call(nr::GETCWD, [path.as_mut_ptr() as usize, path.len()]) }?;
    // The length counts the NUL.
    path.truncate(length.saturating_sub(1));
    if path.first() != Some(&b'/') {
        return Err(Errno::ENOENT);
    }
    Ok(path)
}

/// geteuid(2).
pub fn effective_user() -> u32 {
    // SAFETY: touches no memory and cannot fail.
    unsafe { syscall::raw(nr::GETEUID, [0; 6]) as u32 }
}

/// getegid(2).
pub fn effective_group() -> u32 {
    // SAFETY: touches no memory and cannot fail.
    unsafe { syscall::raw(nr::GETEGID, [0; 6]) as u32 }
}

/// getpid(2).
pub fn process() -> u32 {
    // SAFETY: touches no memory and cannot fail.
    unsafe { syscall::raw(nr::GETPID, [0; 6]) as u32 }
}

/// The time of day (CLOCK_REALTIME).
pub fn now() -> Timespec {
    let mut time = linux::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills the struct that we own.
    let _ = unsafe {
        syscall::call(
            nr::CLOCK_GETTIME,
            [0, core::ptr::from_mut(&mut time) as usize],
        )
    };
    Timespec {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec as u32,
    }
}

/// The soft limit of address space in bytes (RLIMIT_AS), none when unlimited.
pub fn address_space_limit() -> Option<u64> {
    let mut limit = [0u64; 2];
    // SAFETY: the kernel fills the `struct rlimit`, two unsigned longs, that we own.
    let got = unsafe {
        syscall::call(
            nr::GETRLIMIT,
            [linux::RLIMIT_AS as usize, limit.as_mut_ptr() as usize],
        )
    };
    (got.is_ok() && limit[0] != u64::MAX).then_some(limit[0])
}

/// A file mapped read-only (mmap(2)), unmapped when dropped.
///
/// The file is outside data: it may shrink at any time, and then a touch of the lost pages raises
/// SIGBUS. Who hands out slices of a mapping says who may touch them.
#[derive(Debug)]
pub struct Mapped {
    start: *const u8,
    length: usize,
}

// SAFETY: read-only memory that lives as long as the value.
unsafe impl Send for Mapped {}
// SAFETY: as above; nothing is ever written through it.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `length` bytes of `file`, at least one.
    pub fn new(file: &Descriptor, length: u64) -> Result<Self, Errno> {
        let length = usize::try_from(length).map_err(|_| Errno::ENOMEM)?;
        // SAFETY: a new mapping at a place that the kernel chooses; nothing existing is replaced.
        let start = unsafe {
            syscall::call(
                nr::MMAP,
                [
                    culvert_sys::place::hint(length),
                    length,
                    linux::PROT_READ as usize,
                    linux::MAP_SHARED as usize,
                    file.raw() as usize,
                    0,
                ],
            )
        }?;
        Ok(Self {
            start: start as *const u8,
            length,
        })
    }

    /// The mapped bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped readable for `length` bytes until drop. Only length-checked plain bytes
        // are read, so a concurrent change of the file shows as other bytes, never as an invalid
        // value; a truncated file is the business of those who touch (see the type).
        unsafe { core::slice::from_raw_parts(self.start, self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our own mapping, to which no slice can outlive `self`.
        let _ = unsafe { syscall::call(nr::MUNMAP, [self.start as usize, self.length]) };
    }
}

/// A number that nobody can guess (getrandom(2)); some number where the kernel has none yet.
pub fn random() -> u64 {
    const GRND_NONBLOCK: usize = 1;
    let mut word = [0u8; 8];
    // SAFETY: the kernel fills at most the eight bytes that we own.
    let _ = unsafe {
        syscall::call(
            nr::GETRANDOM,
            [word.as_mut_ptr() as usize, word.len(), GRND_NONBLOCK],
        )
    };
    u64::from_le_bytes(word)
}
