//! Requests that every file has (ioctl(2)).

use crate::description::{Held, Object, may_read, may_write, report};
use culvert::{Caller, Errno, FileKind};
use culvert_run::files::{O_PATH, kernel_flags};
use culvert_sys::raw::general::O_APPEND;

/// FIONREAD: what is left to be read behind the offset of `fd`.
pub fn bytes_left(held: &Held, fd: i32) -> Result<i32, Errno> {
    let file = held.file_or(Errno::ENOTTY)?;
    let attributes = file.attributes(&Caller::SYSTEM);
    let size = attributes
        .map_err(|error| report(held, "ioctl", &error))?
        .size;
    held.at_offset(fd, |offset| size.wrapping_sub(*offset) as i32)
}

/// Why nothing is cloned from `source` into `to`, in the kernel's order (fs/remap_range.c,
/// `vfs_clone_file_range`).
pub fn clone_refused((to, target): (&Held, i32), (from, source): (Option<&Held>, i32)) -> Errno {
    let flags = match kernel_flags(source) {
        Ok(flags) => flags,
        Err(errno) => return errno,
    };
    // A place is no open file.
    if flags & O_PATH != 0 || from.is_some_and(|from| matches!(from.object, Object::Path)) {
        return Errno::EBADF;
    }
    let Some(from) = from.filter(|from| from.mount == to.mount) else {
        return Errno::EXDEV;
    };
    if matches!(from.object, Object::Broken) || matches!(to.object, Object::Broken) {
        return Errno::EIO;
    }
    if from.kind == FileKind::Directory || to.kind == FileKind::Directory {
        return Errno::EISDIR;
    }
    let flags = |held: &Held, fd| held.flags(fd).unwrap_or(1);
    let (source, target) = (flags(from, source), flags(to, target));
    if !may_read(source) || !may_write(target) || target & O_APPEND != 0 {
        return Errno::EBADF;
    }
    Errno::EOPNOTSUPP
}
