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

use crate::fd::{self, AsFd, BorrowedFd, CWD, Command, OwnedFd};
use crate::flags::{OFlags, Resolve};
use crate::raw::general::stat;
use crate::{Errno, fs, process};
use core::ffi::CStr;
use core::fmt;

const ROOT: u32 = 0;
/// What all users look like whom a user namespace does not map: DEFAULT_OVERFLOWUID
/// (include/linux/highuid.h).
pub const OVERFLOW: u32 = 65534;

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
    fd: OwnedFd,
    found: stat,
}

impl Opened {
    fn new(fd: OwnedFd) -> Result<Self, Why> {
        let found = fs::fstat(&fd).map_err(Why::Failed)?;
        Ok(Self { fd, found })
    }

    /// Its number; it stays this value's.
    pub fn number(&self) -> i32 {
        self.fd.raw()
    }

    /// Another descriptor of it.
    pub fn duplicate(&self) -> Result<Self, Errno> {
        Ok(Self {
            fd: fd::duplicate(&self.fd, 0)?,
            found: self.found,
        })
    }

    /// Gives up ownership: the caller closes it.
    pub fn release(self) -> i32 {
        self.fd.into_raw()
    }

    /// `fstat` of it, when it was opened.
    pub fn stat(&self) -> &stat {
        &self.found
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "descriptor {}", self.number())
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.borrow()
    }
}

/// The effective user of this process.
pub fn user() -> u32 {
    process::geteuid()
}

/// The directory `path` (absolute), if it is trusted as one of user `owner`: the effective user,
/// except where root asks about somebody.
pub fn directory(path: &CStr, owner: u32) -> Result<Opened, Why> {
    // Also none on the way, which somebody could lead elsewhere later.
    let flags =
        OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOATIME;
    let opened = match fs::openat2(CWD, path, flags, 0, Resolve::NO_SYMLINKS) {
        // A filter that does not know the call, or what it says of O_NOATIME.
        Err(Errno::ENOSYS | Errno::EPERM) => step_by_step(path, flags),
        other => other,
    };
    match opened {
        Ok(fd) => private(Opened::new(fd)?, owner),
        Err(errno) => Err(refusal(CWD, path, owner, errno)),
    }
}

/// openat2(2) with RESOLVE_NO_SYMLINKS of the absolute directory `path`, one component after the
/// other.
fn step_by_step(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    const NAME_MAX: usize = 255;
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut names = path.to_bytes().split(|&byte| byte == b'/');
    if names.next() != Some(b"") {
        return Err(Errno::EINVAL);
    }
    let mut at = fs::openat(CWD, c"/", way, 0)?;
    for name in names.filter(|name| !name.is_empty()) {
        let mut with_nul = [0; NAME_MAX + 1];
        let place = with_nul
            .get_mut(..name.len())
            .filter(|_| name.len() <= NAME_MAX);
        place.ok_or(Errno::ENAMETOOLONG)?.copy_from_slice(name);
        let next = CStr::from_bytes_until_nul(&with_nul).map_err(|_| Errno::EINVAL)?;
        at = fs::openat(&at, next, way, 0)?;
    }
    fs::openat(&at, c".", flags, 0)
}

/// Whether the directory that is open in `number`, which this process has inherited, is trusted.
/// The descriptor stays the caller's.
///
/// A process that has given up root's rights, and what it executes, can still tell root's directory
/// from one that anybody could have left open for it: only who may read a directory with mode 0700
/// can open it for more than `O_PATH`.
pub fn inherited(number: i32) -> Result<(), Why> {
    let fd = BorrowedFd::number(number);
    let flags = fd::fcntl(fd, Command::GETFL, 0).map_err(Why::Failed)?;
    if OFlags::from_bits(flags as u32).contains(OFlags::PATH) {
        return Err(Why::Kind);
    }
    let found = fs::fstat(fd).map_err(Why::Failed)?;
    if found.st_uid == ROOT {
        return is_private(&found, ROOT);
    }
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOATIME;
    match fs::openat(fd, c".", flags, 0) {
        Ok(again) => private(Opened::new(again)?, user()).map(drop),
        Err(Errno::EPERM | Errno::EACCES) => Err(Why::Owner(found.st_uid, user())),
        Err(errno) => Err(Why::Failed(errno)),
    }
}

/// The regular file `name` (one component) of the trusted directory `directory`, opened with
/// `flags`: none of O_CREAT.
pub fn file(directory: &Opened, name: &CStr, flags: OFlags) -> Result<Opened, Why> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match fs::openat(directory, name, flags, 0) {
        Ok(fd) => Opened::new(fd)?,
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

/// The `struct stat` of the regular file that is open in `number`, a description of this user's
/// own processes, if it is one of this user's or of root's that only they may write: so are caches,
/// which everybody may read.
pub fn kept(number: i32) -> Result<stat, Why> {
    let fd = BorrowedFd::number(number);
    let found = fs::fstat(fd).map_err(Why::Failed)?;
    let owner = found.st_uid;
    // The file is only read.
    let compared = || fd::fcntl(fd, Command::SETFL, OFlags::NOATIME.bits() as usize).is_ok();
    match () {
        () if found.st_mode & 0o170_000 != 0o100_000 => Err(Why::Kind),
        () if owner != ROOT && owner != user() => Err(Why::Owner(owner, user())),
        () if owner == OVERFLOW && !compared() => Err(Why::Owner(owner, user())),
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
    const MODE: u32 = 0o700;
    let parent = BorrowedFd::number(parent);
    let new = match fs::mkdirat(parent, name, MODE) {
        Ok(()) => true,
        Err(Errno::EEXIST) => false,
        Err(errno) => return Err(Why::Failed(errno)),
    };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOATIME;
    let opened = match fs::openat(parent, name, flags, 0) {
        Ok(fd) => Opened::new(fd)?,
        Err(errno) => return Err(refusal(parent, name, user(), errno)),
    };
    let found = &opened.found;
    // A default ACL or a set-group-ID directory has its own say. Who has put another in its place
    // meanwhile keeps it.
    if new && found.st_uid == user() && found.st_mode & 0o7777 != MODE {
        fs::fchmod(&opened, MODE).map_err(Why::Failed)?;
        return private(Opened::new(opened.fd)?, user());
    }
    private(opened, user())
}

/// Why the kernel has answered `errno` to who wanted to open the directory `path` (below `parent`)
/// of `owner`: whose is it, where that can be told.
fn refusal(parent: BorrowedFd<'_>, path: &CStr, owner: u32, errno: Errno) -> Why {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = fs::openat(parent, path, flags, 0)
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
