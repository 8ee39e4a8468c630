//! Which directories a process believes: those that only its own user can have filled.
//!
//! A run directory comes by a name, from the environment or from a place where everybody may make
//! names, so that another user may have made it. The one rule: a directory is *trusted* if
//!
//! - its owner is the effective user, its mode 0700, and no symbolic link was followed on the way
//!   to it ([`directory`]); or
//! - it came as a descriptor that was inherited, and is root's or the effective user's own, mode
//!   0700, and open for reading ([`inherited`]): nobody but its owner, or root, can have opened it
//!   so, and each process between them was given it.
//!
//! Its files are opened below its descriptor, follow no links, wait for nobody, and are regular
//! files of the directory's owner (`file`).
//!
//! The numbers of users are not enough: in a user namespace that does not map it, each owner is
//! shown as the overflow user (65534, user_namespaces(7)), and so is a process. `O_NOATIME` makes
//! the kernel compare the users themselves (open(2); `inode_owner_or_capable` of fs/inode.c).

use crate::raw::general::AT_FDCWD;
use crate::raw::general::stat;
use crate::{Errno, nr, syscall};
use core::ffi::CStr;
use core::fmt;

const O_DIRECTORY: usize = 0o200_000;
const O_NOFOLLOW: usize = 0o400_000;
const O_NONBLOCK: usize = 0o4000;
const O_CLOEXEC: usize = 0o2_000_000;
const O_NOATIME: usize = 0o1_000_000;
const O_PATH: usize = 0o10_000_000;
const ROOT: u32 = 0;

/// Why something is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It cannot be opened.
    Failed(Errno),
    /// It lies behind a symbolic link, or is one.
    Link,
    /// It is a file of another kind than was asked for.
    Kind,
    /// It belongs to this user, who is another one than the second.
    Owner(u32, u32),
    /// Others may use it: its mode.
    Mode(u32),
}

impl Why {
    /// The errno that a caller passes on.
    pub fn errno(self) -> Errno {
        match self {
            Self::Failed(errno) => errno,
            Self::Link => Errno::ELOOP,
            Self::Kind | Self::Owner(..) | Self::Mode(_) => Errno::EACCES,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(errno) => write!(f, "it cannot be opened: {errno}"),
            Self::Link => f.write_str("a symbolic link leads to it"),
            Self::Kind => f.write_str("it is a file of another kind"),
            Self::Owner(owner, user) if owner == user => {
                write!(
                    f,
                    "it belongs to a user whom this namespace shows as {owner}"
                )
            }
            Self::Owner(owner, user) => write!(f, "it belongs to user {owner}, not to {user}"),
            Self::Mode(mode) => write!(f, "its mode {mode:04o} lets others in"),
        }
    }
}

/// What was found to be trusted, open; closed when dropped.
pub struct Opened {
    number: i32,
    found: stat,
}

impl Opened {
    fn new(number: usize) -> Result<Self, Why> {
        let number = number as i32;
        status(number)
            .map(|found| Self { number, found })
            .map_err(|errno| {
                close(number);
                Why::Failed(errno)
            })
    }

    /// Its number; it stays this value's.
    pub fn number(&self) -> i32 {
        self.number
    }

    /// Gives up ownership: the caller closes it.
    pub fn release(self) -> i32 {
        let number = self.number;
        core::mem::forget(self);
        number
    }

    /// `fstat` of it, when it was opened.
    pub fn stat(&self) -> &stat {
        &self.found
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "descriptor {}", self.number)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        close(self.number);
    }
}

fn close(number: i32) {
    // SAFETY: the descriptor is the caller's own.
    let _ = unsafe { syscall::call(nr::CLOSE, [number as usize]) };
}

/// The effective user of this process.
pub fn user() -> u32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { syscall::raw(nr::GETEUID, [0; 6]) as u32 }
}

/// The directory `path` (absolute), if it is trusted as one of user `owner`: the effective user,
/// except where root asks about somebody.
pub fn directory(path: &CStr, owner: u32) -> Result<Opened, Why> {
    // `struct open_how`, and RESOLVE_NO_SYMLINKS: also none on the way, which somebody could lead
    // elsewhere later.
    const RESOLVE_NO_SYMLINKS: u64 = 4;
    let flags = O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME;
    let how = [flags as u64, 0, RESOLVE_NO_SYMLINKS];
    let arguments = [
        AT_FDCWD as usize,
        path.as_ptr() as usize,
        how.as_ptr() as usize,
        size_of_val(&how),
    ];
    // SAFETY: the path ends in NUL, the structure is given with its size.
    let opened = match unsafe { syscall::call(nr::OPENAT2, arguments) } {
        // A filter that does not know the call, or what it says of O_NOATIME.
        Err(Errno::ENOSYS | Errno::EPERM) => step_by_step(path, flags),
        other => other,
    };
    match opened {
        Ok(number) => private(Opened::new(number)?, owner),
        Err(errno) => Err(refusal(AT_FDCWD, path, owner, errno)),
    }
}

/// openat2(2) with RESOLVE_NO_SYMLINKS of the absolute directory `path`, one component after the
/// other.
fn step_by_step(path: &CStr, flags: usize) -> Result<usize, Errno> {
    const NAME_MAX: usize = 255;
    let open = |parent: i32, name: &CStr, flags: usize| {
        let at = [parent as usize, name.as_ptr() as usize, flags];
        // SAFETY: the path ends in NUL.
        unsafe { syscall::call(nr::OPENAT, at) }
    };
    let way = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    let mut names = path.to_bytes().split(|&byte| byte == b'/');
    if names.next() != Some(b"") {
        return Err(Errno::EINVAL);
    }
    let mut at = open(AT_FDCWD, c"/", way)?;
    for name in names.filter(|name| !name.is_empty()) {
        let mut with_nul = [0; NAME_MAX + 1];
        let next = match with_nul.get_mut(..name.len()) {
            Some(place) if name.len() <= NAME_MAX => {
                place.copy_from_slice(name);
                CStr::from_bytes_until_nul(&with_nul).map_err(|_| Errno::EINVAL)
            }
            _ => Err(Errno::ENAMETOOLONG),
        };
        let next = next.and_then(|name| open(at as i32, name, way));
        close(at as i32);
        at = next?;
    }
    let last = open(at as i32, c".", flags);
    close(at as i32);
    last
}

/// Whether the directory that is open in `number`, which this process has inherited, is trusted.
/// The descriptor stays the caller's.
///
/// A process that has given up root's rights, and what it executes, can still tell root's directory
/// from one that anybody could have left open for it: only who may read a directory with mode 0700
/// can open it for more than `O_PATH`.
pub fn inherited(number: i32) -> Result<(), Why> {
    const F_GETFL: usize = 3;
    // SAFETY: takes no memory.
    let flags = unsafe { syscall::call(nr::FCNTL, [number as usize, F_GETFL]) };
    if flags.map_err(Why::Failed)? & O_PATH != 0 {
        return Err(Why::Kind);
    }
    let found = status(number).map_err(Why::Failed)?;
    if found.st_uid == ROOT {
        return is_private(&found, ROOT);
    }
    let arguments = [
        number as usize,
        c".".as_ptr() as usize,
        O_DIRECTORY | O_CLOEXEC | O_NOATIME,
    ];
    // SAFETY: the path ends in NUL.
    match unsafe { syscall::call(nr::OPENAT, arguments) } {
        Ok(again) => private(Opened::new(again)?, user()).map(drop),
        Err(Errno::EPERM | Errno::EACCES) => Err(Why::Owner(found.st_uid, user())),
        Err(errno) => Err(Why::Failed(errno)),
    }
}

/// The regular file `name` (one component) of the trusted directory `directory`, opened with
/// `flags`: none of O_CREAT.
pub fn file(directory: &Opened, name: &CStr, flags: usize) -> Result<Opened, Why> {
    let arguments = [
        directory.number as usize,
        name.as_ptr() as usize,
        flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
    ];
    // SAFETY: the path ends in NUL.
    let opened = match unsafe { syscall::call(nr::OPENAT, arguments) } {
        Ok(number) => Opened::new(number)?,
        Err(Errno::ELOOP) => return Err(Why::Link),
        // A FIFO that nobody reads, a socket.
        Err(Errno::ENXIO) => return Err(Why::Kind),
        Err(errno) => return Err(Why::Failed(errno)),
    };
    let (found, owner) = (opened.found, directory.found.st_uid);
    match () {
        () if found.st_mode & 0o170_000 != 0o100_000 => Err(Why::Kind),
        () if found.st_uid != owner => Err(Why::Owner(found.st_uid, owner)),
        () => Ok(opened),
    }
}

/// The `struct stat` of the regular file that is open in `number`, a description of this process's
/// own, if it is one of this user's or of root's that only they may write: so are caches, which
/// everybody may read.
pub fn kept(number: i32) -> Result<stat, Why> {
    const F_SETFL: usize = 4;
    /// DEFAULT_OVERFLOWUID (include/linux/highuid.h).
    const OVERFLOW: u32 = 65534;
    let found = status(number).map_err(Why::Failed)?;
    let user = user();
    // SAFETY: takes no memory; the file is only read.
    let compared =
        || unsafe { syscall::call(nr::FCNTL, [number as usize, F_SETFL, O_NOATIME]).is_ok() };
    match () {
        () if found.st_mode & 0o170_000 != 0o100_000 => Err(Why::Kind),
        () if found.st_uid != ROOT && found.st_uid != user => Err(Why::Owner(found.st_uid, user)),
        () if found.st_uid == OVERFLOW && !compared() => Err(Why::Owner(found.st_uid, user)),
        () if found.st_mode & 0o022 != 0 => Err(Why::Mode(found.st_mode & 0o7777)),
        () => Ok(found),
    }
}

/// Makes the directory `name` (one component) in the one that is open in `parent`, for the
/// effective user alone: as [`directory`] asks for it. One that is there already is looked at in
/// the same way, and left as it is.
///
/// The caller's umask must leave the owner's rights: they are needed to open it.
pub fn make_directory(parent: i32, name: &CStr) -> Result<Opened, Why> {
    const MODE: usize = 0o700;
    let at = [parent as usize, name.as_ptr() as usize, MODE];
    // SAFETY: the path ends in NUL.
    let new = match unsafe { syscall::call(nr::MKDIRAT, at) } {
        Ok(_) => true,
        Err(Errno::EEXIST) => false,
        Err(errno) => return Err(Why::Failed(errno)),
    };
    let flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME;
    let at = [parent as usize, name.as_ptr() as usize, flags];
    // SAFETY: the path ends in NUL.
    let opened = match unsafe { syscall::call(nr::OPENAT, at) } {
        Ok(number) => Opened::new(number)?,
        Err(errno) => return Err(refusal(parent, name, user(), errno)),
    };
    let found = &opened.found;
    // A default ACL or a set-group-ID directory has its own say. Who has put another in its place
    // meanwhile keeps it.
    if new && found.st_uid == user() && found.st_mode & 0o7777 != MODE as u32 {
        // SAFETY: takes no memory.
        unsafe { syscall::call(nr::FCHMOD, [opened.number as usize, MODE]) }
            .map_err(Why::Failed)?;
        return private(Opened::new(opened.release() as usize)?, user());
    }
    private(opened, user())
}

/// Why the kernel has answered `errno` to who wanted to open the directory `path` (below `parent`)
/// of `owner`: whose is it, where that can be told.
fn refusal(parent: i32, path: &CStr, owner: u32, errno: Errno) -> Why {
    let at = [
        parent as usize,
        path.as_ptr() as usize,
        O_PATH | O_NOFOLLOW | O_CLOEXEC,
    ];
    // SAFETY: the path ends in NUL.
    let found = unsafe { syscall::call(nr::OPENAT, at) }
        .map_err(Why::Failed)
        .and_then(Opened::new)
        .map(|opened| opened.found);
    match (errno, found) {
        (Errno::ELOOP, _) => Why::Link,
        (Errno::ENOTDIR, Ok(found)) if found.st_mode & 0o170_000 == 0o120_000 => Why::Link,
        (Errno::ENOTDIR, _) => Why::Kind,
        (Errno::EPERM, Ok(found)) => Why::Owner(found.st_uid, owner),
        (Errno::EACCES, Ok(found)) if found.st_uid != owner => Why::Owner(found.st_uid, owner),
        // Its owner could open it: somebody else whom this namespace shows by the same number.
        (Errno::EACCES, Ok(found)) if found.st_mode & 0o500 == 0o500 => {
            Why::Owner(found.st_uid, owner)
        }
        (Errno::EACCES, Ok(found)) => Why::Mode(found.st_mode & 0o7777),
        (errno, _) => Why::Failed(errno),
    }
}

fn private(opened: Opened, owner: u32) -> Result<Opened, Why> {
    is_private(&opened.found, owner).map(|()| opened)
}

fn is_private(found: &stat, owner: u32) -> Result<(), Why> {
    match () {
        () if found.st_mode & 0o170_000 != 0o040_000 => Err(Why::Kind),
        () if found.st_uid != owner => Err(Why::Owner(found.st_uid, owner)),
        () if found.st_mode & 0o077 != 0 => Err(Why::Mode(found.st_mode & 0o7777)),
        () => Ok(()),
    }
}

fn status(number: i32) -> Result<stat, Errno> {
    let mut out = core::mem::MaybeUninit::<stat>::zeroed();
    // SAFETY: the buffer is a `struct stat`, plain data.
    unsafe {
        syscall::call(nr::FSTAT, [number as usize, out.as_mut_ptr() as usize])?;
        Ok(out.assume_init())
    }
}
