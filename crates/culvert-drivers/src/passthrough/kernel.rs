//! The system calls of the passthrough driver: everything it asks of the kernel is here.
//!
//! Calls name their object by a descriptor, mostly one opened with `O_PATH`. Where a call takes no
//! such descriptor, its magic link in `/proc/self/fd` stands for it, which leads to the very
//! object, link or not (proc(5)).

use crate::descriptor::OwnedFd;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::{Errno, Error, FileKind, Result};
use culvert_sys::fd::{self, BorrowedFd, CWD};
use culvert_sys::flags::{AtFlags, OFlags, RenameFlags, Resolve};
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, own_descriptors, process};

pub(super) use linux::{
    AT_EMPTY_PATH, AT_REMOVEDIR, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOCTTY,
    O_NOFOLLOW, O_NONBLOCK, O_PATH, O_TMPFILE,
};

/// A name with the NUL that the kernel wants.
pub(crate) struct Name([u8; 256]);

impl Name {
    /// `ENAMETOOLONG` above 255 bytes, `EINVAL` for what is no single component.
    pub fn new(name: &[u8]) -> Result<Self> {
        if name.len() > 255 {
            return Err(Errno::ENAMETOOLONG.into());
        }
        if matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(Errno::EINVAL.into());
        }
        let mut bytes = [0; 256];
        bytes[..name.len()].copy_from_slice(name);
        Ok(Self(bytes))
    }

    /// Without the NUL.
    pub fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0);
        self.0.get(..end.unwrap_or(0)).unwrap_or_default()
    }

    /// With the NUL.
    pub fn terminated(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

/// The magic link of a descriptor.
pub(super) struct Link([u8; 33]);

impl Link {
    pub fn new(fd: i32) -> Self {
        // Of at most 21 bytes; a number has at most 10 digits.
        let prefix = own_descriptors::directory().as_bytes();
        let mut path = [0; 33];
        path[..prefix.len()].copy_from_slice(prefix);
        let mut digits = [0u8; 10];
        let (mut rest, mut first) = (fd.unsigned_abs(), digits.len());
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let count = digits.len() - first;
        path[prefix.len()..prefix.len() + count].copy_from_slice(&digits[first..]);
        Self(path)
    }

    pub fn path(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}

/// `bytes` with a NUL; `ENOENT` for bytes with a NUL inside.
pub(super) fn terminated(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Errno::ENOENT.into())
}

/// Opens the directory `path`, which must lead there without links, with `O_PATH`.
pub(super) fn open_root(path: &[u8]) -> Result<OwnedFd> {
    let path = terminated(path)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match fs::openat2(CWD, &path, flags, 0, Resolve::NO_SYMLINKS) {
        // Before Linux 5.6, or under a filter that does not know the call: the identity is compared
        // all the same.
        Err(Errno::ENOSYS | Errno::EPERM) => Ok(fs::openat(CWD, &path, flags, 0)?),
        opened => Ok(opened?),
    }
}

/// What `path` below the directory `dir` is, passing no link, with `O_PATH`.
pub(super) fn open_below(dir: i32, path: &[u8]) -> Result<OwnedFd> {
    let resolve = Resolve::BENEATH | Resolve::NO_SYMLINKS;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat2(
        BorrowedFd::number(dir),
        &terminated(path)?,
        flags,
        0,
        resolve,
    )?)
}

/// openat(2) of a single component, close-on-exec.
pub(super) fn open_at(dir: i32, name: &Name, flags: u32, mode: u32) -> Result<OwnedFd> {
    open(BorrowedFd::number(dir), name.terminated(), flags, mode)
}

/// A descriptor on the parent of directory `dir`, `O_PATH`.
pub(super) fn open_parent(dir: i32) -> Result<OwnedFd> {
    open(BorrowedFd::number(dir), c"..", O_PATH | O_DIRECTORY, 0)
}

/// A description of its own on what `dir`, a directory, is. Not by its `.`, for which it would have
/// to be searchable.
pub(super) fn open_directory(dir: i32, flags: u32, mode: u32) -> Result<OwnedFd> {
    let link = Link::new(dir);
    proc_needed(open(CWD, link.path(), flags | O_DIRECTORY, mode))
}

/// A description of its own on what `fd` is, whatever that is.
pub(super) fn reopen(fd: i32, flags: u32) -> Result<OwnedFd> {
    let link = Link::new(fd);
    proc_needed(open(CWD, link.path(), flags, 0))
}

/// Another descriptor on the description of `fd`, at a high number if possible: to move it there
/// later, by another dup and a close, would drop the record locks that the process may have on the
/// file (fcntl(2)).
pub(crate) fn duplicate(fd: i32) -> Result<OwnedFd> {
    const HIGH: i32 = 256;
    let fd = BorrowedFd::number(fd);
    Ok(fd::duplicate(fd, HIGH).or_else(|_| fd::duplicate(fd, 0))?)
}

fn open(dir: BorrowedFd<'_>, path: &CStr, flags: u32, mode: u32) -> Result<OwnedFd> {
    let flags = OFlags::from_bits(flags) | OFlags::CLOEXEC;
    Ok(fs::openat(dir, path, flags, mode)?)
}

/// Magic links always lead somewhere: `ENOENT` says that there are none.
pub(super) fn proc_needed<T>(result: Result<T>) -> Result<T> {
    match result {
        Err(error) if error.errno() == Errno::ENOENT => Err(Error::because(
            Errno::EIO,
            "there is no /proc/self/fd: is /proc mounted?",
        )),
        other => other,
    }
}

/// statx(2): of `name` in `fd`, not followed, or of `fd` itself.
pub(crate) fn status(fd: i32, name: Option<&Name>) -> Result<linux::statx> {
    status_with(fd, name, linux::STATX_BASIC_STATS | linux::STATX_BTIME)
}

fn status_with(fd: i32, name: Option<&Name>, mask: u32) -> Result<linux::statx> {
    let (fd, flags) = (BorrowedFd::number(fd), AtFlags::SYMLINK_NOFOLLOW);
    Ok(fs::waiting::statx(
        fd,
        name.map(Name::terminated),
        flags,
        mask,
    )?)
}

/// A device number as `st_dev` and `st_rdev` have it (`new_encode_dev`, include/linux/kdev_t.h;
/// makedev(3)).
pub(super) fn device(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xffff_f000) << 32 | (minor & 0xffff_ff00) << 12 | (major & 0xfff) << 8 | minor & 0xff
}

/// `st_dev` and `st_ino` of `status`.
pub(super) fn identity(status: &linux::statx) -> (u64, u64) {
    let device = device(status.stx_dev_major, status.stx_dev_minor);
    (device, status.stx_ino)
}

/// The type of what `status` describes.
pub(super) fn kind(status: &linux::statx) -> Result<FileKind> {
    FileKind::of_mode(u32::from(status.stx_mode))
        .ok_or_else(|| Error::because(Errno::EIO, "a file of no known type"))
}

/// Which directory `fd` is, and on which mount it is seen: device, inode and the mount's number
/// (zero before Linux 5.8).
pub(super) fn place(fd: i32) -> Result<(u64, u64, u64)> {
    let status = status_with(fd, None, linux::STATX_BASIC_STATS | linux::STATX_MNT_ID)?;
    let (device, inode) = identity(&status);
    Ok((device, inode, status.stx_mnt_id))
}

/// The path of what `fd` is, as the magic link shows it.
pub(super) fn path_of(fd: i32) -> Result<Vec<u8>> {
    let link = Link::new(fd);
    proc_needed(Ok(fs::read_link(CWD, link.path())?))
}

/// The target of the symbolic link that `fd` is; `EINVAL` when it is none.
pub(super) fn link_target(fd: i32) -> Result<Vec<u8>> {
    match fs::read_link(BorrowedFd::number(fd), c"") {
        // What the kernel says of an empty path on anything but a link.
        Err(Errno::ENOENT) => Err(Errno::EINVAL.into()),
        other => Ok(other?),
    }
}

/// symlinkat(2).
pub(super) fn symlink(target: &[u8], dir: i32, name: &Name) -> Result<()> {
    let target = terminated(target)?;
    Ok(fs::symlinkat(
        &target,
        BorrowedFd::number(dir),
        name.terminated(),
    )?)
}

/// mkdirat(2).
pub(super) fn make_directory(dir: i32, name: &Name, mode: u32) -> Result<()> {
    Ok(fs::mkdirat(
        BorrowedFd::number(dir),
        name.terminated(),
        mode,
    )?)
}

/// mknodat(2).
pub(super) fn make_node(dir: i32, name: &Name, mode: u32, device: u32) -> Result<()> {
    Ok(fs::mknodat(
        BorrowedFd::number(dir),
        name.terminated(),
        mode,
        device,
    )?)
}

/// unlinkat(2).
pub(super) fn remove(dir: i32, name: &Name, flags: AtFlags) -> Result<()> {
    Ok(fs::unlinkat(
        BorrowedFd::number(dir),
        name.terminated(),
        flags,
    )?)
}

/// linkat(2): another name for what `fd` is.
pub(super) fn link(fd: i32, dir: i32, name: &Name) -> Result<()> {
    let (magic, dir) = (Link::new(fd), BorrowedFd::number(dir));
    Ok(fs::linkat(
        CWD,
        magic.path(),
        dir,
        name.terminated(),
        AtFlags::SYMLINK_FOLLOW,
    )?)
}

/// renameat2(2).
pub(super) fn rename(from: (i32, &Name), to: (i32, &Name), flags: u32) -> Result<()> {
    let (from, name) = (BorrowedFd::number(from.0), from.1.terminated());
    let (to, new) = (BorrowedFd::number(to.0), to.1.terminated());
    Ok(fs::renameat2(
        from,
        name,
        to,
        new,
        RenameFlags::from_bits(flags),
    )?)
}

/// faccessat2(2) of what `fd` is; `effective`: of the effective ids, else of the real ones
/// (access(2)).
pub(super) fn access(fd: i32, mode: u32) -> Result<()> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::EACCESS;
    match fs::faccessat2(BorrowedFd::number(fd), c"", mode, flags) {
        // Before Linux 5.8, which judges by the real ids only: they are the effective ones in all
        // but set-user-ID programs.
        Err(Errno::ENOSYS | Errno::EPERM) => Ok(fs::faccessat(CWD, Link::new(fd).path(), mode)?),
        answer => Ok(answer?),
    }
}

/// lseek(2).
pub(crate) fn seek(fd: i32, offset: u64, whence: u32) -> Result<u64> {
    Ok(fs::seek(BorrowedFd::number(fd), offset as i64, whence)?)
}

/// The next entries of a directory, as many as `into` has room for; none at the end
/// (getdents64(2)).
pub(super) fn list(fd: i32, into: &mut Vec<u8>) -> Result<()> {
    Ok(fs::waiting::getdents64(BorrowedFd::number(fd), into)?)
}

/// fstatfs(2).
pub(super) fn statfs(fd: i32) -> Result<linux::statfs> {
    Ok(fs::fstatfs(BorrowedFd::number(fd))?)
}

/// The effective user and group.
pub(super) fn effective_ids() -> (u32, u32) {
    (process::geteuid(), process::getegid())
}
