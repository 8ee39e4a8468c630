//! Extended attributes: of a container files in its directory `xattrs`, of all else the back end's.

use super::host;
use super::layout::XATTRS;
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

/// Attributes of the user alone: all others mean something to the kernel, which does not see these.
fn checked(name: &[u8]) -> Result<()> {
    match name.strip_prefix(b"user.") {
        Some(rest) if !rest.is_empty() && !name.contains(&b'/') => Ok(()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
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
    checked(name)?;
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
    checked(name)?;
    if value.len() > LARGEST {
        return Err(Errno::E2BIG.into());
    }
    host::make_directory(&object.place, XATTRS, 0o755)?;
    let dir = host::open(&object.place, XATTRS, linux::O_PATH | linux::O_DIRECTORY, 0)?;
    let exists = host::status(&dir, name).is_ok();
    match flags {
        CREATE if exists => return Err(Errno::EEXIST.into()),
        REPLACE if !exists => return Err(Errno::ENODATA.into()),
        0 | CREATE | REPLACE => {}
        _ => return Err(Errno::EINVAL.into()),
    }
    let temporary = super::setup::unused();
    let file = host::open(
        &dir,
        &temporary,
        linux::O_WRONLY | linux::O_CREAT | linux::O_EXCL,
        0o644,
    )?;
    let written = host::write_at(&file, 0, value).1;
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
    checked(name)?;
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
    let name = host::terminated(super::layout::ACCESS)?;
    match fs::fchmodat(&object.place, &name, u32::from(access.stx_mode) & 0o7777) {
        // Whoever may write may do this, but not chmod(2).
        Ok(()) | Err(Errno::EPERM) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
