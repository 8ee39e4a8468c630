//! Changing a file's length, and giving and taking its space: what is checked, what of the file is
//! cached follows, and who is told.

use super::node::On;
use super::path::existing;
use super::setattr::{Right, change};
use crate::answer::Answer;
use crate::description::{Held, Object, report};
use crate::process::Process;
use crate::watch::Event;
use culvert::{Caller, Errno, FileKind, SetAttributes};
use culvert_cache::change::{Place, before, before_giving};
use culvert_mounts::resolver::Inside;
use culvert_run::task::limits;
use culvert_sys::raw::general::FALLOC_FL_KEEP_SIZE;

/// truncate(2) (`vfs_truncate`, fs/open.c: EISDIR and EINVAL, EROFS, EACCES, ETXTBSY, EFBIG).
pub fn by_path(process: &Process, found: &Inside<'_>, length: u64) -> Answer {
    match existing(found)?.kind {
        FileKind::Regular => change(process, On::Found(found), Ok((to(length), Right::Write))),
        FileKind::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

fn to(length: u64) -> SetAttributes {
    SetAttributes {
        size: Some(length),
        ..Default::default()
    }
}

/// ftruncate(2): EINVAL for a descriptor that is not open for writing.
pub fn by_descriptor(held: &Held, length: i64) -> Result<(), Errno> {
    let length = u64::try_from(length).map_err(|_| Errno::EINVAL)?;
    if matches!(held.object, Object::Path) {
        return Err(Errno::EBADF);
    }
    let refused = |error| match error {
        Errno::EBADF => Errno::EINVAL,
        error => error,
    };
    let failed = |error| report(held, "ftruncate", &error);
    let file = held.writable().map_err(refused)?;
    if limits::file_size() != u64::MAX {
        let attributes = file.attributes(&Caller::SYSTEM).map_err(failed)?;
        limits::may_grow_to(attributes.size, length)?;
    }
    let _lock = held.lock_node();
    // Under the lock nothing becomes of it any more.
    let file = held.writable().map_err(refused)?;
    let change = before_giving(&**held, Place::Unknown).map_err(failed)?;
    file.set_attributes(&culvert_run::task::caller(), &to(length))
        .map_err(failed)?;
    if let Some(change) = change {
        change.after((length, length)).map_err(failed)?;
    }
    held.tell(Event::Modify);
    Ok(())
}

/// fallocate(2), in the order of `vfs_fallocate`, fs/open.c.
pub fn allocate(held: &Held, mode: u32, offset: usize, length: usize) -> Result<(), Errno> {
    if matches!(held.object, Object::Path) {
        return Err(Errno::EBADF);
    }
    if (offset as i64) < 0 || (length as i64) <= 0 {
        return Err(Errno::EINVAL);
    }
    if !is_known(mode) {
        return Err(Errno::EOPNOTSUPP);
    }
    let file = held.writable()?;
    let end = offset
        .checked_add(length)
        .filter(|&end| end <= i64::MAX as usize);
    let end = end.ok_or(Errno::EFBIG)? as u64;
    let failed = |error| report(held, "fallocate", &error);
    if limits::file_size() != u64::MAX && mode & FALLOC_FL_KEEP_SIZE == 0 {
        let attributes = file.attributes(&Caller::SYSTEM).map_err(failed)?;
        limits::may_grow_to(attributes.size, end)?;
    }
    // What is moved may have been stored and not written back.
    culvert_cache::write_back(&**held).map_err(failed)?;
    let _lock = held.lock_node();
    // Under the lock nothing becomes of it any more.
    let file = held.writable()?;
    let operation = mode & !FALLOC_FL_KEEP_SIZE;
    let change = match operation {
        // Nothing of the file need be read for these.
        0 | UNSHARE_RANGE | PUNCH_HOLE => before_giving(&**held, Place::Unknown),
        _ => before(&**held, None),
    }
    .map_err(failed)?;
    let (offset, length) = (offset as u64, length as u64);
    file.allocate(mode, offset, length).map_err(failed)?;
    if let Some(change) = change {
        // Not more than the call changes: what programs store meanwhile is in the shadow alone.
        let changed = match operation {
            // Space alone.
            0 | UNSHARE_RANGE => (0, 0),
            PUNCH_HOLE if change.punch(mode, offset, length).is_ok() => (0, 0),
            PUNCH_HOLE | ZERO_RANGE => (offset, end),
            // Collapsing and inserting move what lies behind.
            _ => (offset, i64::MAX as u64),
        };
        change.after(changed).map_err(failed)?;
    }
    held.tell(Event::Written);
    Ok(())
}

/// FALLOC_FL_PUNCH_HOLE.
const PUNCH_HOLE: u32 = 2;
/// FALLOC_FL_ZERO_RANGE.
const ZERO_RANGE: u32 = 0x10;
/// FALLOC_FL_UNSHARE_RANGE.
const UNSHARE_RANGE: u32 = 0x40;

/// The modes that any file system may have: one of the operations, a hole only with the size kept,
/// the size kept only with a hole or zeroes or by itself.
fn is_known(mode: u32) -> bool {
    const COLLAPSE_RANGE: u32 = 8;
    const INSERT_RANGE: u32 = 0x20;
    match mode & !FALLOC_FL_KEEP_SIZE {
        0 | ZERO_RANGE | UNSHARE_RANGE => true,
        PUNCH_HOLE => mode & FALLOC_FL_KEEP_SIZE != 0,
        COLLAPSE_RANGE | INSERT_RANGE => mode & FALLOC_FL_KEEP_SIZE == 0,
        _ => false,
    }
}
