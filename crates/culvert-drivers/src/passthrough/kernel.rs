//! The system calls of the passthrough driver: everything it asks of the kernel is here.
//!
//! Calls name their object by a descriptor, mostly one opened with `O_PATH`. Where a call takes no
//! such descriptor, its magic link in `/proc/self/fd` stands for it, which leads to the very
//! object, link or not (proc(5)).

pub(crate) use crate::archive::host::terminated;
use crate::descriptor::OwnedFd;
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::{Errno, Error, FileKind, Result};
use culvert_sys::fd::{AsFd, CWD};
use culvert_sys::flags::{AtFlags, OFlags, Resolve};
use culvert_sys::raw::general as linux;
use culvert_sys::{fs, own_descriptors};

pub(crate) use linux::{
    AT_EMPTY_PATH, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOATIME, O_NOCTTY, O_NOFOLLOW,
    O_NONBLOCK, O_PATH, O_TMPFILE,
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
pub(crate) struct Link([u8; 33]);

impl Link {
    pub fn new(fd: impl AsFd) -> Self {
        // Of at most 21 bytes; a number has at most 10 digits.
        let prefix = own_descriptors::directory().as_bytes();
        let mut path = [0; 33];
        path[..prefix.len()].copy_from_slice(prefix);
        let mut digits = [0u8; 10];
        let (mut rest, mut first) = (fd.as_fd().raw().unsigned_abs(), digits.len());
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

/// Opens the directory `path`, which must lead there without links, with `O_PATH`.
pub(crate) fn open_root(path: &[u8]) -> Result<OwnedFd> {
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
pub(crate) fn open_below(dir: impl AsFd, path: &[u8]) -> Result<OwnedFd> {
    let resolve = Resolve::BENEATH | Resolve::NO_SYMLINKS;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat2(dir, &terminated(path)?, flags, 0, resolve)?)
}

/// The directory `path` below the directory `dir`, passing no link, with `O_PATH`.
pub(super) fn open_directory_below(dir: impl AsFd, path: &[u8]) -> Result<OwnedFd> {
    let resolve = Resolve::BENEATH | Resolve::NO_SYMLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::openat2(dir, &terminated(path)?, flags, 0, resolve)?)
}

/// openat(2) of a single component, close-on-exec.
pub(crate) fn open_at(dir: impl AsFd, name: &Name, flags: u32, mode: u32) -> Result<OwnedFd> {
    open(dir, name.terminated(), flags, mode)
}

/// The same; `flags` say whether it is closed on exec.
pub(super) fn create_at(dir: impl AsFd, name: &Name, flags: u32, mode: u32) -> Result<OwnedFd> {
    let flags = OFlags::from_bits(flags);
    Ok(fs::openat(dir, name.terminated(), flags, mode)?)
}

/// What `name` in `dir` is, link or not, with `O_PATH`.
pub(crate) fn open_place(dir: impl AsFd, name: &Name) -> Result<OwnedFd> {
    open_at(dir, name, O_PATH | O_NOFOLLOW, 0)
}

/// A descriptor on the parent of directory `dir`, `O_PATH`.
pub(crate) fn open_parent(dir: impl AsFd) -> Result<OwnedFd> {
    open(dir, c"..", O_PATH | O_DIRECTORY, 0)
}

/// A description of its own on what `dir`, a directory, is. Not by its `.`, for which it would have
/// to be searchable.
pub(crate) fn open_directory(dir: impl AsFd, flags: u32, mode: u32) -> Result<OwnedFd> {
    proc_needed(open(CWD, Link::new(dir).path(), flags | O_DIRECTORY, mode))
}

/// A description of its own on what `fd` is, whatever that is.
pub(crate) fn reopen(fd: impl AsFd, flags: u32) -> Result<OwnedFd> {
    proc_needed(open(CWD, Link::new(fd).path(), flags, 0))
}

fn open(dir: impl AsFd, path: &CStr, flags: u32, mode: u32) -> Result<OwnedFd> {
    let flags = OFlags::from_bits(flags) | OFlags::CLOEXEC;
    Ok(fs::openat(dir, path, flags, mode)?)
}

/// Magic links always lead somewhere: `ENOENT` says that there are none.
pub(crate) fn proc_needed<T, E: Into<Error>>(result: core::result::Result<T, E>) -> Result<T> {
    result.map_err(|error| match error.into() {
        error if error.errno() == Errno::ENOENT => {
            Error::because(Errno::EIO, "there is no /proc/self/fd: is /proc mounted?")
        }
        error => error,
    })
}

/// statx(2): of `name` in `fd`, not followed, or of `fd` itself.
pub(crate) fn status(fd: impl AsFd, name: Option<&Name>) -> Result<linux::statx> {
    status_with(fd, name, AtFlags::SYMLINK_NOFOLLOW, BASIC)
}

/// The same as the server of a network file system has it now, whatever this machine remembers.
pub(crate) fn status_now(fd: impl AsFd, name: Option<&Name>) -> Result<linux::statx> {
    let now = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::STATX_FORCE_SYNC);
    status_with(fd, name, now, BASIC)
}

const BASIC: u32 = linux::STATX_BASIC_STATS | linux::STATX_BTIME;

fn status_with(
    fd: impl AsFd,
    name: Option<&Name>,
    flags: AtFlags,
    mask: u32,
) -> Result<linux::statx> {
    let name = name.map(Name::terminated);
    Ok(fs::waiting::statx(fd, name, flags, mask)?)
}

/// A device number as `st_dev` and `st_rdev` have it (`new_encode_dev`, include/linux/kdev_t.h;
/// makedev(3)).
pub(crate) fn device(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xffff_f000) << 32 | (minor & 0xffff_ff00) << 12 | (major & 0xfff) << 8 | minor & 0xff
}

/// `st_dev` and `st_ino` of `status`.
pub(crate) fn identity(status: &linux::statx) -> (u64, u64) {
    let device = device(status.stx_dev_major, status.stx_dev_minor);
    (device, status.stx_ino)
}

/// The type of what `status` describes.
pub(crate) fn kind(status: &linux::statx) -> Result<FileKind> {
    FileKind::of_mode(u32::from(status.stx_mode))
        .ok_or_else(|| Error::because(Errno::EIO, "a file of no known type"))
}

/// Which directory `fd` is, and on which mount it is seen: device, inode and the mount's number
/// (zero before Linux 5.8).
pub(crate) fn place(fd: impl AsFd) -> Result<(u64, u64, u64)> {
    let mask = linux::STATX_BASIC_STATS | linux::STATX_MNT_ID;
    let status = status_with(fd, None, AtFlags::SYMLINK_NOFOLLOW, mask)?;
    let (device, inode) = identity(&status);
    Ok((device, inode, status.stx_mnt_id))
}

/// The path of what `fd` is, as the magic link shows it.
pub(crate) fn path_of(fd: impl AsFd) -> Result<Vec<u8>> {
    proc_needed(fs::read_link(CWD, Link::new(fd).path()))
}

/// The target of the symbolic link that `fd` is; `EINVAL` when it is none.
pub(crate) fn link_target(fd: impl AsFd) -> Result<Vec<u8>> {
    match fs::read_link(fd, c"") {
        // What the kernel says of an empty path on anything but a link.
        Err(Errno::ENOENT) => Err(Errno::EINVAL.into()),
        other => Ok(other?),
    }
}

/// linkat(2): another name for what `fd` is.
pub(crate) fn link(fd: impl AsFd, dir: impl AsFd, name: &Name) -> Result<()> {
    let (magic, name) = (Link::new(fd), name.terminated());
    Ok(fs::linkat(
        CWD,
        magic.path(),
        dir,
        name,
        AtFlags::SYMLINK_FOLLOW,
    )?)
}

/// faccessat2(2) of what `fd` is, by the effective ids.
pub(crate) fn access(fd: impl AsFd, mode: u32) -> Result<()> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::EACCESS;
    match fs::faccessat2(&fd, c"", mode, flags) {
        // Before Linux 5.8, which judges by the real ids only: they are the effective ones in all
        // but set-user-ID programs.
        Err(Errno::ENOSYS | Errno::EPERM) => Ok(fs::faccessat(CWD, Link::new(fd).path(), mode)?),
        answer => Ok(answer?),
    }
}

/// The same of `name` in `dir`, not followed.
///
/// - `ENOSYS`, `EPERM`: there is no such call here.
pub(crate) fn access_at(dir: impl AsFd, name: &Name, mode: u32) -> Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EACCESS;
    Ok(fs::faccessat2(dir, name.terminated(), mode, flags)?)
}

/// Opens `name` in `dir`, which must be no link. `flags` say whether it is closed on exec.
pub(crate) fn open_no_link(dir: impl AsFd, name: &Name, flags: u32) -> Result<OwnedFd> {
    let flags = OFlags::from_bits(flags);
    let path = name.terminated();
    Ok(fs::openat2(dir, path, flags, 0, Resolve::NO_SYMLINKS)?)
}

/// lseek(2).
pub(crate) fn seek(fd: impl AsFd, offset: u64, whence: u32) -> Result<u64> {
    Ok(fs::seek(fd, offset as i64, whence)?)
}

/// The largest value of an extended attribute and the longest list of them (`XATTR_SIZE_MAX`,
/// `XATTR_LIST_MAX`, limits.h).
const LARGEST_XATTR: usize = 64 << 10;
/// What nearly all fit in.
const USUAL_XATTR: usize = 256;

/// getxattr(2) of what `fd` is.
pub(crate) fn xattr(fd: impl AsFd, name: &[u8]) -> Result<Vec<u8>> {
    let (link, name) = (Link::new(fd), terminated(name)?);
    xattr_bytes(|into| fs::getxattr(link.path(), &name, into))
}

/// listxattr(2) of what `fd` is.
pub(crate) fn xattr_names(fd: impl AsFd) -> Result<Vec<u8>> {
    let link = Link::new(fd);
    xattr_bytes(|into| fs::listxattr(link.path(), into))
}

/// What `call` writes, as many bytes as it says.
fn xattr_bytes(call: impl Fn(&mut [u8]) -> core::result::Result<usize, Errno>) -> Result<Vec<u8>> {
    let mut value = alloc::vec![0; USUAL_XATTR];
    let answer = match call(&mut value) {
        Err(Errno::ERANGE) => {
            value.resize(LARGEST_XATTR, 0);
            call(&mut value)
        }
        answer => answer,
    };
    value.truncate(proc_needed(answer)?);
    Ok(value)
}
