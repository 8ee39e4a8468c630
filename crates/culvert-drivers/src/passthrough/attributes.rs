//! Attributes as the kernel tells and takes them.

use super::kernel::{Link, Name, device, kind};
use culvert::{Attributes, Errno, Node, Result, SetAttributes, Timespec};
use culvert_sys::fd::{BorrowedFd, CWD};
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

/// The attributes of `node`, which `status` describes. `inode` is the node's number: on other
/// devices than the root's the inode alone would make hard links of strangers.
pub(crate) fn attributes(node: Node, status: &linux::statx) -> Result<Attributes> {
    let time = |time: linux::statx_timestamp| Timespec {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    };
    Ok(Attributes {
        node,
        inode: node.0,
        kind: kind(status)?,
        permissions: u32::from(status.stx_mode) & 0o7777,
        links: status.stx_nlink,
        uid: status.stx_uid,
        gid: status.stx_gid,
        rdev: device(status.stx_rdev_major, status.stx_rdev_minor),
        size: status.stx_size,
        blocks: status.stx_blocks,
        block_size: status.stx_blksize,
        atime: time(status.stx_atime),
        mtime: time(status.stx_mtime),
        ctime: time(status.stx_ctime),
        btime: (status.stx_mask & linux::STATX_BTIME != 0).then(|| time(status.stx_btime)),
    })
}

/// A descriptor whose attributes are to be changed.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// Opened with `O_PATH`.
    Place(BorrowedFd<'a>),
    /// An open file.
    File(BorrowedFd<'a>),
    /// A name in a directory, not followed.
    Name(BorrowedFd<'a>, &'a Name),
}

/// Makes `changes`; the first that the kernel refuses ends it. Owner, mode and times are refused
/// for the same reasons, so that nothing is done when the first one is.
pub(crate) fn change(target: Target<'_>, changes: &SetAttributes) -> Result<()> {
    if changes.uid.is_some() || changes.gid.is_some() || changes.is_empty() {
        change_owner(target, changes.uid, changes.gid)?;
    }
    if let Some(size) = changes.size {
        change_size(target, size)?;
    }
    if let Some(permissions) = changes.permissions {
        change_permissions(target, permissions)?;
    }
    if changes.atime.is_some() || changes.mtime.is_some() {
        change_times(target, changes)?;
    }
    Ok(())
}

fn change_owner(target: Target<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    const SAME: u32 = u32::MAX;
    let (uid, gid) = (uid.unwrap_or(SAME), gid.unwrap_or(SAME));
    let (fd, name, flags) = match target {
        Target::Place(fd) | Target::File(fd) => (fd, c"", AtFlags::EMPTY_PATH),
        Target::Name(dir, name) => (dir, name.terminated(), AtFlags::SYMLINK_NOFOLLOW),
    };
    Ok(fs::fchownat(fd, name, uid, gid, flags)?)
}

fn change_permissions(target: Target<'_>, mode: u32) -> Result<()> {
    match target {
        Target::File(fd) => Ok(fs::fchmod(fd, mode)?),
        Target::Name(dir, name) => {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            Ok(fs::fchmodat2(dir, name.terminated(), mode, flags)?)
        }
        Target::Place(fd) => match fs::fchmodat2(fd, c"", mode, AtFlags::EMPTY_PATH) {
            // Before Linux 6.6, or under a filter that does not know the call.
            Err(Errno::ENOSYS | Errno::EPERM) => Ok(fs::fchmodat(CWD, Link::new(fd).path(), mode)?),
            other => Ok(other?),
        },
    }
}

fn change_size(target: Target<'_>, size: u64) -> Result<()> {
    match target {
        Target::File(fd) => Ok(fs::ftruncate(fd, size)?),
        Target::Place(fd) => Ok(fs::truncate(Link::new(fd).path(), size)?),
        // There is no call that would not follow a link.
        Target::Name(..) => Err(Errno::ENOSYS.into()),
    }
}

fn change_times(target: Target<'_>, changes: &SetAttributes) -> Result<()> {
    let times = times(changes.atime, changes.mtime);
    // Both the present moment: write permission is enough, if the kernel is told so.
    let times = (!changes.touch).then_some(&times);
    let none = AtFlags::empty();
    let answer = match target {
        Target::File(fd) => fs::utimensat(fd, None, times, none),
        Target::Name(dir, name) => {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            fs::utimensat(dir, Some(name.terminated()), times, flags)
        }
        Target::Place(fd) => {
            match fs::utimensat(fd, Some(c""), times, AtFlags::EMPTY_PATH) {
                // Before Linux 5.8 only by path.
                Err(Errno::EINVAL) => fs::utimensat(CWD, Some(Link::new(fd).path()), times, none),
                answer => answer,
            }
        }
    };
    Ok(answer?)
}

/// Both for utimensat(2); none: it stays as it is.
pub(crate) fn times(atime: Option<Timespec>, mtime: Option<Timespec>) -> fs::Times {
    [atime, mtime].map(|time| linux::timespec {
        tv_sec: time.map_or(0, |time| time.seconds),
        tv_nsec: time
            .map_or(linux::UTIME_OMIT, |time| time.nanoseconds)
            .into(),
    })
}
