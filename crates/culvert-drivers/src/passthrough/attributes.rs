//! Attributes as the kernel tells and takes them.

use super::kernel::{self, Link, device, kind};
use culvert::{Attributes, Errno, Node, Result, SetAttributes, Timespec};
use culvert_sys::raw::general as linux;
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::{nr, syscall};

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
pub(crate) enum Target {
    /// Opened with `O_PATH`.
    Place(i32),
    /// An open file.
    File(i32),
}

/// Makes `changes`; the first that the kernel refuses ends it. Owner, mode and times are refused
/// for the same reasons, so that nothing is done when the first one is.
pub(crate) fn change(target: Target, changes: &SetAttributes) -> Result<()> {
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

const EMPTY: &core::ffi::CStr = c"";

fn change_owner(target: Target, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    const SAME: u32 = u32::MAX;
    let (uid, gid) = (uid.unwrap_or(SAME) as usize, gid.unwrap_or(SAME) as usize);
    let (Target::Place(fd) | Target::File(fd)) = target;
    let flags = kernel::AT_EMPTY_PATH as usize;
    // SAFETY: the path is NUL-terminated.
    unsafe {
        syscall::call(
            nr::FCHOWNAT,
            [fd as usize, EMPTY.as_ptr() as usize, uid, gid, flags],
        )
    }?;
    Ok(())
}

fn change_permissions(target: Target, permissions: u32) -> Result<()> {
    let mode = permissions as usize;
    // SAFETY: paths are NUL-terminated and outlive the calls.
    unsafe {
        match target {
            Target::File(fd) => syscall::call(nr::FCHMOD, [fd as usize, mode]),
            Target::Place(fd) => {
                let flags = kernel::AT_EMPTY_PATH as usize;
                match syscall::call(
                    nr::FCHMODAT2,
                    [fd as usize, EMPTY.as_ptr() as usize, mode, flags],
                ) {
                    // Before Linux 6.6, or under a filter that does not know the call.
                    Err(Errno::ENOSYS | Errno::EPERM) => {
                        let link = Link::new(fd);
                        syscall::call(nr::FCHMODAT, [AT_FDCWD as usize, link.address(), mode])
                    }
                    other => other,
                }
            }
        }
    }?;
    Ok(())
}

fn change_size(target: Target, size: u64) -> Result<()> {
    let size = usize::try_from(size).map_err(|_| Errno::EFBIG)?;
    // SAFETY: paths are NUL-terminated and outlive the calls.
    let answer = unsafe {
        match target {
            Target::File(fd) => syscall::call(nr::FTRUNCATE, [fd as usize, size]),
            Target::Place(fd) => {
                let link = Link::new(fd);
                syscall::call(nr::TRUNCATE, [link.address(), size])
            }
        }
    };
    answer?;
    Ok(())
}

fn change_times(target: Target, changes: &SetAttributes) -> Result<()> {
    let time = |time: Option<Timespec>| match time {
        Some(time) => linux::timespec {
            tv_sec: time.seconds,
            tv_nsec: i64::from(time.nanoseconds),
        },
        None => linux::timespec {
            tv_sec: 0,
            tv_nsec: i64::from(linux::UTIME_OMIT),
        },
    };
    let times = [time(changes.atime), time(changes.mtime)];
    // Both the present moment: write permission is enough, if the kernel is told so.
    let times = match changes.touch {
        true => 0,
        false => times.as_ptr() as usize,
    };
    let (fd, path, flags) = match target {
        Target::File(fd) => (fd as usize, 0, 0),
        Target::Place(fd) => (
            fd as usize,
            EMPTY.as_ptr() as usize,
            kernel::AT_EMPTY_PATH as usize,
        ),
    };
    // SAFETY: the path is null or NUL-terminated, the times null or two that outlive the call.
    let answer = unsafe { syscall::call(nr::UTIMENSAT, [fd, path, times, flags]) };
    let answer = match (answer, target) {
        // Before Linux 5.8 only by path.
        (Err(Errno::EINVAL), Target::Place(fd)) => {
            let link = Link::new(fd);
            // SAFETY: as above.
            unsafe { syscall::call(nr::UTIMENSAT, [AT_FDCWD as usize, link.address(), times, 0]) }
        }
        (answer, _) => answer,
    };
    answer?;
    Ok(())
}
