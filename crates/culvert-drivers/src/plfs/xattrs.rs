//! Extended attributes: of a container files in its directory `xattrs`, of all else the back end's.

use super::host;
use super::layout::{ACCESS, XATTRS};
use super::object::Object;
use crate::passthrough::kernel::{self, Link};
use alloc::vec::Vec;
use culvert::{Errno, Result};
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

/// setxattr(2).
const CREATE: u32 = 1;
const REPLACE: u32 = 2;
/// Largest value (`XATTR_SIZE_MAX`, limits.h).
const LARGEST: usize = 64 << 10;

/// access(2).
const READ: u32 = 4;
const WRITE: u32 = 2;

/// Attributes of the user alone: all others mean something to the kernel, which does not see these.
fn checked(name: &[u8]) -> Result<()> {
    match name.strip_prefix(b"user.") {
        Some(b"") => Err(Errno::EINVAL.into()),
        Some(_) if !name.contains(&b'/') => Ok(()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// Attributes are read by who may read the file, and changed by who may write it (xattr(7)); then
/// their names are looked at.
fn permitted(object: &Object, wanted: u32, name: &[u8]) -> Result<()> {
    let all = wanted * 0o111;
    let mode = object.access.map_or(0, |access| access.stx_mode.into());
    if mode & all != all {
        let access = host::open(&object.place, ACCESS, linux::O_PATH, 0)?;
        kernel::access(access, wanted)?;
    }
    checked(name)
}

fn missing<T>(result: Result<T>) -> Result<T> {
    result.map_err(|error| match error.errno() {
        Errno::ENOENT => Errno::ENODATA.into(),
        _ => error,
    })
}

/// getxattr(2).
pub fn get(object: &Object, name: &[u8]) -> Result<Vec<u8>> {
    if object.access.is_none() {
        return kernel::xattr(&object.place, name);
    }
    permitted(object, READ, name)?;
    let dir = missing(host::open(
        &object.place,
        XATTRS,
        linux::O_PATH | linux::O_DIRECTORY,
        0,
    ))?;
    let file = missing(host::open(
        &dir,
        name,
        linux::O_RDONLY | linux::O_NONBLOCK,
        0,
    ))?;
    let mut value = alloc::vec![0; LARGEST + 1];
    let read = host::read_at(&file, 0, &mut value)?;
    if read > LARGEST {
        return Err(Errno::E2BIG.into());
    }
    value.truncate(read);
    Ok(value)
}

/// listxattr(2).
pub fn list(object: &Object) -> Result<Vec<u8>> {
    if object.access.is_none() {
        return kernel::xattr_names(&object.place);
    }
    let mut list = Vec::new();
    let dir = match host::open(&object.place, XATTRS, linux::O_PATH | linux::O_DIRECTORY, 0) {
        Err(error) if error.errno() == Errno::ENOENT => return Ok(list),
        dir => dir?,
    };
    for (name, _) in host::names(&dir)? {
        if checked(&name).is_ok() {
            list.extend_from_slice(&name);
            list.push(0);
        }
    }
    Ok(list)
}

/// setxattr(2).
pub fn set(object: &Object, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
    let terminated = host::terminated(name)?;
    if object.access.is_none() {
        return Ok(fs::setxattr(
            Link::new(&object.place).path(),
            &terminated,
            value,
            flags,
        )?);
    }
    if flags & !(CREATE | REPLACE) != 0 {
        return Err(Errno::EINVAL.into());
    }
    if value.len() > LARGEST {
        return Err(Errno::E2BIG.into());
    }
    permitted(object, WRITE, name)?;
    let new = host::make_directory(&object.place, XATTRS, 0o755)?;
    let dir = host::open(&object.place, XATTRS, linux::O_PATH | linux::O_DIRECTORY, 0)?;
    if new {
        host::for_owner(&dir, 0o700)?;
    }
    // With both flags there is always a reason to refuse (`simple_xattr_set`, fs/xattr.c).
    match host::status(&dir, name).is_ok() {
        true if flags & CREATE != 0 => return Err(Errno::EEXIST.into()),
        false if flags & REPLACE != 0 => return Err(Errno::ENODATA.into()),
        _ => {}
    }
    let temporary = super::setup::unused();
    let file = host::open(
        &dir,
        &temporary,
        linux::O_WRONLY | linux::O_CREAT | linux::O_EXCL,
        0o644,
    )?;
    let written = host::for_owner(&file, 0o600)
        .map_err(|error| error.errno())
        .and_then(|()| host::write_at(&file, 0, value).1);
    let placed = written.and_then(|()| host::rename((&dir, &temporary), (&dir, name), 0));
    if placed.is_err() {
        let _ = host::unlink(&dir, &temporary, false);
    }
    touch(object)?;
    Ok(placed?)
}

/// removexattr(2).
pub fn remove(object: &Object, name: &[u8]) -> Result<()> {
    if object.access.is_none() {
        let terminated = host::terminated(name)?;
        return Ok(fs::removexattr(
            Link::new(&object.place).path(),
            &terminated,
        )?);
    }
    permitted(object, WRITE, name)?;
    let dir = missing(host::open(
        &object.place,
        XATTRS,
        linux::O_PATH | linux::O_DIRECTORY,
        0,
    ))?;
    missing(host::unlink(&dir, name, false))?;
    touch(object)
}

/// A change of attributes changes the time of change (xattr(7), `notify_change`): a chmod(2) to the
/// same mode does it.
fn touch(object: &Object) -> Result<()> {
    let Some(access) = &object.access else {
        return Ok(());
    };
    let name = host::terminated(ACCESS)?;
    match fs::fchmodat(&object.place, &name, u32::from(access.stx_mode) & 0o7777) {
        // Whoever may write may do this, but not chmod(2).
        Ok(()) | Err(Errno::EPERM) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
