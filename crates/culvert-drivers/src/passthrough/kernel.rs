//! The system calls of the passthrough driver: everything it asks of the kernel is here.
//!
//! Calls name their object by a descriptor, mostly one opened with `O_PATH`. Where a call takes no
//! such descriptor, its magic link in `/proc/self/fd` stands for it, which leads to the very
//! object, link or not (proc(5)).

use crate::descriptor::Descriptor;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use culvert::{Errno, Error, FileKind, Result};
use culvert_sys::raw::general as linux;
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::{nr, own_descriptors, syscall, waits};

pub(super) use linux::{
    AT_EMPTY_PATH, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW, O_CLOEXEC, O_CREAT,
    O_DIRECTORY, O_EXCL, O_NOATIME, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_TMPFILE,
};

const EMPTY: &core::ffi::CStr = c"";

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

    fn address(&self) -> usize {
        self.0.as_ptr() as usize
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

    pub fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

/// `bytes` with a NUL; `ENOENT` for bytes with a NUL inside.
pub(super) fn terminated(bytes: &[u8]) -> Result<Vec<u8>> {
    if bytes.contains(&0) {
        return Err(Errno::ENOENT.into());
    }
    let mut owned = Vec::with_capacity(bytes.len() + 1);
    owned.extend_from_slice(bytes);
    owned.push(0);
    Ok(owned)
}

/// Opens the directory `path`, which must lead there without links, with `O_PATH`.
pub(super) fn open_root(path: &[u8]) -> Result<Descriptor> {
    let path = terminated(path)?;
    let flags = O_PATH | O_DIRECTORY;
    match open_resolved(AT_FDCWD as usize, &path, flags, linux::RESOLVE_NO_SYMLINKS) {
        // Before Linux 5.6, or under a filter that does not know the call: the identity is compared
        // all the same.
        Err(error) if matches!(error.errno(), Errno::ENOSYS | Errno::EPERM) => {
            open_address(AT_FDCWD as usize, path.as_ptr() as usize, flags, 0)
        }
        opened => opened,
    }
}

/// What `path` below the directory `dir` is, passing no link, with `O_PATH`.
pub(super) fn open_below(dir: i32, path: &[u8]) -> Result<Descriptor> {
    let path = terminated(path)?;
    let resolve = linux::RESOLVE_BENEATH | linux::RESOLVE_NO_SYMLINKS;
    open_resolved(dir as usize, &path, O_PATH | O_NOFOLLOW, resolve)
}

/// openat2(2); `path` ends in NUL.
fn open_resolved(dir: usize, path: &[u8], flags: u32, resolve: u32) -> Result<Descriptor> {
    let how = linux::open_how {
        flags: u64::from(flags | O_CLOEXEC),
        mode: 0,
        resolve: u64::from(resolve),
    };
    let arguments = [
        dir,
        path.as_ptr() as usize,
        (&raw const how) as usize,
        size_of::<linux::open_how>(),
    ];
    // SAFETY: the path is NUL-terminated, the structure is given with its size; both outlive the
    // call.
    let fd = unsafe { syscall::call(nr::OPENAT2, arguments) }?;
    Ok(Descriptor::from_raw(fd as i32))
}

/// openat(2) of a single component, close-on-exec.
pub(super) fn open_at(dir: i32, name: &Name, flags: u32, mode: u32) -> Result<Descriptor> {
    open_address(dir as usize, name.address(), flags, mode)
}

/// A descriptor on the parent of directory `dir`, `O_PATH`.
pub(super) fn open_parent(dir: i32) -> Result<Descriptor> {
    let parent = c"..".as_ptr() as usize;
    open_address(dir as usize, parent, O_PATH | O_DIRECTORY, 0)
}

/// A description of its own on what `dir`, a directory, is. Not by its `.`, for which it would have
/// to be searchable.
pub(super) fn open_directory(dir: i32, flags: u32, mode: u32) -> Result<Descriptor> {
    let link = Link::new(dir);
    proc_needed(open_address(
        AT_FDCWD as usize,
        link.address(),
        flags | O_DIRECTORY,
        mode,
    ))
}

/// A description of its own on what `fd` is, whatever that is.
pub(super) fn reopen(fd: i32, flags: u32) -> Result<Descriptor> {
    let link = Link::new(fd);
    proc_needed(open_address(AT_FDCWD as usize, link.address(), flags, 0))
}

/// Another descriptor on the description of `fd`, at a high number if possible: to move it there
/// later, by another dup and a close, would drop the record locks that the process may have on the
/// file (fcntl(2)).
pub(crate) fn duplicate(fd: i32) -> Result<Descriptor> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    const HIGH: usize = 256;
    // SAFETY: makes a new descriptor, nothing else.
    let from = |lowest| unsafe { syscall::call(nr::FCNTL, [fd as usize, F_DUPFD_CLOEXEC, lowest]) };
    let other = from(HIGH).or_else(|_| from(0))?;
    Ok(Descriptor::from_raw(other as i32))
}

fn open_address(dir: usize, path: usize, flags: u32, mode: u32) -> Result<Descriptor> {
    let flags = (flags | O_CLOEXEC) as usize;
    // SAFETY: the callers' paths are NUL-terminated and outlive the call.
    let fd = unsafe { syscall::call(nr::OPENAT, [dir, path, flags, mode as usize]) }?;
    Ok(Descriptor::from_raw(fd as i32))
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
    let mut out = MaybeUninit::<linux::statx>::zeroed();
    let (path, flags) = match name {
        Some(name) => (name.address(), AT_SYMLINK_NOFOLLOW),
        None => (EMPTY.as_ptr() as usize, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW),
    };
    // SAFETY: the path is NUL-terminated; the kernel fills the struct that we own, plain data for
    // which zero is a value.
    unsafe {
        waits::call(
            nr::STATX,
            [
                fd as usize,
                path,
                flags as usize,
                mask as usize,
                out.as_mut_ptr() as usize,
            ],
        )?;
        Ok(out.assume_init())
    }
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
    proc_needed(read_link(AT_FDCWD as usize, link.address()))
}

/// The target of the symbolic link that `fd` is; `EINVAL` when it is none.
pub(super) fn link_target(fd: i32) -> Result<Vec<u8>> {
    match read_link(fd as usize, EMPTY.as_ptr() as usize) {
        // What the kernel says of an empty path on anything but a link.
        Err(error) if error.errno() == Errno::ENOENT => Err(Errno::EINVAL.into()),
        other => other,
    }
}

fn read_link(dir: usize, path: usize) -> Result<Vec<u8>> {
    let mut target: Vec<u8> = Vec::with_capacity(4096);
    let arguments = [dir, path, target.as_mut_ptr() as usize, target.capacity()];
    // SAFETY: the path is NUL-terminated; the kernel writes at most the capacity, and says how
    // much, which is then initialised.
    unsafe {
        let length = syscall::call(nr::READLINKAT, arguments)?;
        target.set_len(length);
    }
    Ok(target)
}

/// A call on `dir` and a name in it, with two numbers more: mkdirat, mknodat, unlinkat.
pub(super) fn name_call(number: usize, dir: i32, name: &Name, more: [usize; 2]) -> Result<()> {
    let arguments = [dir as usize, name.address(), more[0], more[1]];
    // SAFETY: the name is NUL-terminated and outlives the call.
    unsafe { syscall::call(number, arguments) }?;
    Ok(())
}

/// symlinkat(2).
pub(super) fn symlink(target: &[u8], dir: i32, name: &Name) -> Result<()> {
    let target = terminated(target)?;
    let arguments = [target.as_ptr() as usize, dir as usize, name.address()];
    // SAFETY: target and name are NUL-terminated and outlive the call.
    unsafe { syscall::call(nr::SYMLINKAT, arguments) }?;
    Ok(())
}

/// linkat(2): another name for what `fd` is.
pub(super) fn link(fd: i32, dir: i32, name: &Name) -> Result<()> {
    let magic = Link::new(fd);
    let to = (dir as usize, name.address());
    let follow = AT_SYMLINK_FOLLOW as usize;
    // SAFETY: both paths are NUL-terminated and outlive the call.
    unsafe {
        syscall::call(
            nr::LINKAT,
            [AT_FDCWD as usize, magic.address(), to.0, to.1, follow],
        )
    }?;
    Ok(())
}

/// renameat2(2).
pub(super) fn rename(from: (i32, &Name), to: (i32, &Name), flags: u32) -> Result<()> {
    let arguments = [
        from.0 as usize,
        from.1.address(),
        to.0 as usize,
        to.1.address(),
        flags as usize,
    ];
    // SAFETY: both names are NUL-terminated and outlive the call.
    unsafe { syscall::call(nr::RENAMEAT2, arguments) }?;
    Ok(())
}

/// faccessat2(2) of what `fd` is; `effective`: of the effective ids, else of the real ones
/// (access(2)).
pub(super) fn access(fd: i32, mode: u32) -> Result<()> {
    let flags = AT_EMPTY_PATH | linux::AT_EACCESS;
    let arguments = [
        fd as usize,
        EMPTY.as_ptr() as usize,
        mode as usize,
        flags as usize,
    ];
    // SAFETY: the path is NUL-terminated.
    let answer = match unsafe { syscall::call(nr::FACCESSAT2, arguments) } {
        // Before Linux 5.8, which judges by the real ids only: they are the effective ones in all
        // but set-user-ID programs.
        Err(Errno::ENOSYS | Errno::EPERM) => {
            let link = Link::new(fd);
            // SAFETY: as above.
            unsafe {
                syscall::call(
                    nr::FACCESSAT,
                    [AT_FDCWD as usize, link.address(), mode as usize],
                )
            }
        }
        answer => answer,
    };
    answer?;
    Ok(())
}

/// lseek(2).
pub(crate) fn seek(fd: i32, offset: u64, whence: u32) -> Result<u64> {
    let arguments = [fd as usize, offset as usize, whence as usize];
    // SAFETY: touches no memory of ours.
    Ok(unsafe { syscall::call(nr::LSEEK, arguments) }? as u64)
}

/// The next entries of a directory, as many as `into` has room for; none at the end
/// (getdents64(2)).
pub(super) fn list(fd: i32, into: &mut Vec<u8>) -> Result<()> {
    into.clear();
    let arguments = [fd as usize, into.as_mut_ptr() as usize, into.capacity()];
    // SAFETY: the kernel writes at most the capacity, and says how much, which is then initialised.
    unsafe {
        let length = waits::call(nr::GETDENTS64, arguments)?;
        into.set_len(length.min(into.capacity()));
    }
    Ok(())
}

/// fstatfs(2).
pub(super) fn statfs(fd: i32) -> Result<linux::statfs> {
    let mut out = MaybeUninit::<linux::statfs>::zeroed();
    // SAFETY: the kernel fills the struct that we own, plain data for which zero is a value.
    unsafe {
        syscall::call(nr::FSTATFS, [fd as usize, out.as_mut_ptr() as usize])?;
        Ok(out.assume_init())
    }
}

/// A call on a descriptor alone: fsync, fdatasync, syncfs.
pub(crate) fn descriptor_call(number: usize, fd: i32) -> Result<()> {
    let arguments = [fd as usize];
    // SAFETY: touches no memory of ours.
    unsafe {
        match number {
            // A child would have what is not closed yet.
            nr::CLOSE => syscall::call(number, arguments),
            _ => waits::call(number, arguments),
        }
    }?;
    Ok(())
}

/// The effective user and group.
pub(super) fn effective_ids() -> (u32, u32) {
    // SAFETY: the calls touch no memory and cannot fail.
    unsafe {
        (
            syscall::raw(nr::GETEUID, [0; 6]) as u32,
            syscall::raw(nr::GETEGID, [0; 6]) as u32,
        )
    }
}
