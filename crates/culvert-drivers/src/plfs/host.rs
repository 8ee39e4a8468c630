//! The system calls of the driver: on back ends, by a descriptor and a path or name below it.

use crate::descriptor::duplicate;
use crate::passthrough::attributes::{Target, change};
use crate::passthrough::kernel::{self, Name};
use crate::{Keeper, KeptFd, OwnedFd};
use alloc::{format, vec::Vec};
use culvert::{Errno, FileKind, Result, SetAttributes};
use culvert_sys::fd::{AsFd, BorrowedFd};
use culvert_sys::flags::{AtFlags, OFlags, RenameFlags};
use culvert_sys::raw::general::{self as linux, statx};
use culvert_sys::{fd, fs, process};

use super::reach::NFS;
pub use crate::archive::host::terminated;

/// Bytes that are copied at once where they cannot go straight.
pub const PIECE: usize = 64 << 10;
/// For how long a lock that is wanted on NFS is not asked for again, nanoseconds.
const SHORTEST_PAUSE: u64 = 1_000_000;
const LONGEST_PAUSE: u64 = 16_000_000;

/// A directory that exists for the moment, or as long as the mount.
pub enum Dir<'a> {
    /// Kept by somebody else.
    Kept(BorrowedFd<'a>),
    /// Opened for this.
    Own(OwnedFd),
}

impl AsFd for Dir<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Kept(fd) => *fd,
            Self::Own(fd) => fd.borrow(),
        }
    }
}

/// What `path` below `root` is, with `O_PATH`, link or not; passes no links.
pub fn place(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd> {
    match path {
        // Not by its `.`, for which it would have to be searchable.
        b"" => Ok(duplicate(root)?),
        path => kernel::open_below(root, path),
    }
}

/// The directory that holds `path`, and the last name.
pub fn above<'a>(root: BorrowedFd<'a>, path: &[u8]) -> Result<(Dir<'a>, Name)> {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => {
            let dir = kernel::open_below(root, &path[..slash])?;
            Ok((Dir::Own(dir), Name::new(&path[slash + 1..])?))
        }
        None => Ok((Dir::Kept(root), Name::new(path)?)),
    }
}

/// statx(2) of `name` in `dir`, not followed.
pub fn status(dir: impl AsFd, name: &[u8]) -> Result<statx> {
    kernel::status(dir, Some(&Name::new(name)?))
}

/// The same as the server of a network file system has it now.
pub fn status_now(dir: impl AsFd, name: &[u8]) -> Result<statx> {
    kernel::status_now(dir, Some(&Name::new(name)?))
}

/// Whether `status` is of a directory.
pub fn is_directory(status: &statx) -> bool {
    FileKind::of_mode(u32::from(status.stx_mode)) == Some(FileKind::Directory)
}

/// Whether `status` is of a symbolic link.
pub fn is_link(status: &statx) -> bool {
    FileKind::of_mode(u32::from(status.stx_mode)) == Some(FileKind::Symlink)
}

/// When the content was changed, nanoseconds since the epoch.
pub fn changed(status: &statx) -> u64 {
    let time = &status.stx_mtime;
    (time.tv_sec as u64).wrapping_mul(1_000_000_000) + u64::from(time.tv_nsec)
}

/// openat(2) of a name in `dir`, links not followed.
pub fn open(dir: impl AsFd, name: &[u8], flags: u32, mode: u32) -> Result<OwnedFd> {
    kernel::open_at(
        dir,
        &Name::new(name)?,
        flags | linux::O_NOFOLLOW | linux::O_NOCTTY,
        mode,
    )
}

/// The same of what was a regular file: a FIFO that has its name by now is not waited for.
pub fn open_file(dir: impl AsFd, name: &[u8], flags: u32) -> Result<OwnedFd> {
    match open(&dir, name, flags | linux::O_NONBLOCK, 0) {
        // Somebody has a lease on it (fcntl(2)), as only regular files have.
        Err(error) if error.errno() == Errno::EAGAIN => open(&dir, name, flags, 0),
        opened => opened,
    }
}

/// What [`open`] opens, kept.
pub fn open_kept(
    keeper: Keeper,
    dir: impl AsFd,
    name: &[u8],
    flags: u32,
    mode: u32,
) -> Result<KeptFd> {
    Ok(keeper.keep(open(dir, name, flags, mode)?))
}

/// Makes an empty file; false where there is something of that name.
pub fn make_file(dir: impl AsFd, name: &[u8], mode: u32) -> Result<bool> {
    // mknod(2) opens nothing.
    let made = fs::mknodat(
        &dir,
        Name::new(name)?.terminated(),
        linux::S_IFREG | mode,
        0,
    );
    match made {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
        // SMB has it for devices alone.
        Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS) => {
            let flags = linux::O_WRONLY | linux::O_CREAT | linux::O_EXCL;
            match open(dir, name, flags, mode) {
                Ok(_) => Ok(true),
                Err(error) if error.errno() == Errno::EEXIST => Ok(false),
                Err(error) => Err(error),
            }
        }
        Err(errno) => Err(errno.into()),
    }
}

/// mkdirat(2); true if it was made, false if there is a directory.
pub fn make_directory(dir: impl AsFd, name: &[u8], mode: u32) -> Result<bool> {
    let name = Name::new(name)?;
    match fs::mkdirat(&dir, name.terminated(), mode) {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => match is_directory(&kernel::status(&dir, Some(&name))?) {
            true => Ok(false),
            false => Err(Errno::EEXIST.into()),
        },
        Err(errno) => Err(errno.into()),
    }
}

/// What was just made has the rights `wanted` for its owner, whatever the umask is: Culvert itself
/// needs them, whoever may use the file.
pub fn for_owner(made: impl AsFd, wanted: u32) -> Result<()> {
    let mode = fs::fstat(&made)?.st_mode & 0o7777;
    if mode & wanted == wanted {
        return Ok(());
    }
    let changes = SetAttributes {
        permissions: Some(mode | wanted),
        ..SetAttributes::default()
    };
    change(Target::Place(made.as_fd()), &changes)
}

/// The names in directory `dir`, with their types, in order.
pub fn names(dir: impl AsFd) -> Result<Vec<(Vec<u8>, Option<FileKind>)>> {
    let mut names = Vec::new();
    crate::passthrough::entries(dir, 0, &mut |record, name| {
        names.push((
            name.to_vec(),
            FileKind::of_mode(u32::from(record.kind) << 12),
        ));
        true
    })?;
    names.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
    Ok(names)
}

/// unlinkat(2).
pub fn unlink(dir: impl AsFd, name: &[u8], directory: bool) -> Result<()> {
    let flags = match directory {
        true => AtFlags::REMOVEDIR,
        false => AtFlags::empty(),
    };
    Ok(fs::unlinkat(dir, Name::new(name)?.terminated(), flags)?)
}

/// renameat2(2).
pub fn rename(
    from: (impl AsFd, &[u8]),
    to: (impl AsFd, &[u8]),
    flags: u32,
) -> core::result::Result<(), Errno> {
    let name = |name| Name::new(name).map_err(|error| error.errno());
    let (old, new) = (name(from.1)?, name(to.1)?);
    let flags = RenameFlags::from_bits(flags);
    fs::renameat2(from.0, old.terminated(), to.0, new.terminated(), flags)
}

/// symlinkat(2).
pub fn symlink(target: &[u8], dir: impl AsFd, name: &[u8]) -> Result<()> {
    Ok(fs::symlinkat(
        &terminated(target)?,
        dir,
        Name::new(name)?.terminated(),
    )?)
}

/// The target of the link `name` in `dir`.
pub fn read_link(dir: impl AsFd, name: &[u8]) -> Result<Vec<u8>> {
    Ok(fs::read_link(dir, Name::new(name)?.terminated())?)
}

/// Removes all that directory `name` in `dir` holds, and itself; its metalinks are not followed.
/// What is gone already is fine.
pub fn remove_tree(dir: impl AsFd, name: &[u8], depth: usize) -> Result<()> {
    let gone = |result: Result<()>| match result {
        Err(error) if error.errno() == Errno::ENOENT => Ok(()),
        other => other,
    };
    let opened = open(&dir, name, linux::O_PATH | linux::O_DIRECTORY, 0);
    let opened = match opened {
        Err(error) if error.errno() == Errno::ENOENT => return Ok(()),
        opened => opened?,
    };
    for (inner, kind) in names(&opened)? {
        match kind == Some(FileKind::Directory) && depth > 0 {
            true => remove_tree(&opened, &inner, depth - 1)?,
            false => gone(unlink(&opened, &inner, false))?,
        }
    }
    gone(unlink(&dir, name, true))
}

/// pread(2) until `into` is full or the file ends.
pub fn read_at(fd: impl AsFd, offset: u64, into: &mut [u8]) -> Result<usize> {
    Ok(crate::archive::host::read_at(fd, offset, into)?)
}

/// pwrite(2) of all of `bytes`: how many, and why not more.
pub fn write_at(
    fd: impl AsFd,
    offset: u64,
    bytes: &[u8],
) -> (usize, core::result::Result<(), Errno>) {
    let mut done = 0;
    while done < bytes.len() {
        match fs::pwrite(&fd, &bytes[done..], offset + done as u64) {
            Ok(0) => return (done, Err(Errno::ENOSPC)),
            Ok(count) => done += count,
            Err(Errno::EINTR) => {}
            Err(errno) => return (done, Err(errno)),
        }
    }
    (done, Ok(()))
}

/// flock(2), exclusive or shared; waits, if it is to.
///
/// A client of NFS that is not told by its server that a lock is free asks for it again after 30
/// seconds (`nfs4_retry_setlk`, fs/nfs/nfs4proc.c), so there it is asked for more often.
pub fn lock(fd: impl AsFd, exclusive: bool, wait: bool) -> core::result::Result<(), Errno> {
    let kind = if exclusive {
        linux::LOCK_EX
    } else {
        linux::LOCK_SH
    };
    let mut pause = SHORTEST_PAUSE;
    loop {
        match fd::flock(&fd, kind | linux::LOCK_NB) {
            Err(Errno::EINTR) => continue,
            Err(Errno::EAGAIN) if wait => {}
            other => return other,
        }
        if fs::fstatfs(&fd).is_ok_and(|found| found.f_type as u64 == NFS) {
            let _ = process::nanosleep(pause);
            pause = (2 * pause).min(LONGEST_PAUSE);
            continue;
        }
        match fd::flock(&fd, kind) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// flock(2), the end of it.
pub fn unlock(fd: impl AsFd) {
    // Of a descriptor that is open nothing can be wrong.
    let _ = fd::flock(fd, linux::LOCK_UN);
}

/// The soft limit of the size of files.
pub fn file_size_limit() -> u64 {
    process::file_size_limit()
}

/// The path of what `fd` is.
pub fn path_of(fd: impl AsFd) -> Result<Vec<u8>> {
    kernel::path_of(fd)
}

/// This host's name, as gethostname(2) has it; "localhost" where it cannot be told.
pub fn host_name() -> Vec<u8> {
    let mut name = Vec::with_capacity(256);
    let read = fs::open(
        c"/proc/sys/kernel/hostname",
        OFlags::RDONLY | OFlags::CLOEXEC,
        0,
    )
    .and_then(|file| fs::read_more(&file, &mut name));
    while name.last().is_some_and(|byte| byte.is_ascii_whitespace()) {
        name.pop();
    }
    match read.is_ok() && !name.is_empty() && !name.contains(&b'/') {
        true => name,
        false => b"localhost".to_vec(),
    }
}

/// The number of this process.
pub fn own_pid() -> u32 {
    process::getpid()
}

/// A text, as bytes.
pub fn decimal(number: u64) -> Vec<u8> {
    format!("{number}").into_bytes()
}
