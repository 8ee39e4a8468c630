//! The directory `meta` of a container: who writes, and what is known without the indexes.

use super::host::{self, Dir};
use super::layout::{META, Meta, OPEN, OPEN_HOSTS};
use alloc::vec::Vec;
use culvert::{Errno, Result};
use culvert_sys::fd::AsFd;
use culvert_sys::raw::general as linux;

const EMPTY: u32 = 0o644;

fn dir(container: impl AsFd) -> Result<Option<Dir<'static>>> {
    match host::open(container, META, linux::O_PATH | linux::O_DIRECTORY, 0) {
        Ok(dir) => Ok(Some(Dir::Own(dir))),
        Err(error) if error.errno() == Errno::ENOENT => Ok(None),
        Err(error) => Err(error),
    }
}

fn open_name(host: &[u8], pid: u32) -> Vec<u8> {
    [OPEN, host, b".", &host::decimal(pid.into())].concat()
}

/// Process `pid` of `host` writes from now on. False where that is recorded already, by a process
/// that had this number and was killed: that record is not for this one to remove.
pub fn open(container: impl AsFd, host: &[u8], pid: u32) -> Result<bool> {
    let found = match dir(&container)? {
        Some(found) => found,
        None => {
            host::make_directory(&container, META, 0o755)?;
            dir(&container)?.ok_or(Errno::ENOENT)?
        }
    };
    host::make_file(found, &open_name(host, pid), EMPTY)
}

/// Takes back what [`open`] has made.
pub fn forget(container: impl AsFd, host: &[u8], pid: u32) -> Result<()> {
    match dir(container)? {
        Some(found) => host::unlink(&found, &open_name(host, pid), false),
        None => Ok(()),
    }
}

/// Process `pid` has written what `left` says, and writes no more. `reach` says how far its records
/// reach: asked when the name is there already, so that whoever cuts the file meanwhile either is
/// seen in the records or sees the name. `own`: what [`open`] said.
pub fn close(
    container: impl AsFd,
    left: &Meta<'_>,
    pid: u32,
    own: bool,
    reach: impl FnOnce() -> Result<u64>,
) -> Result<()> {
    // Removed by somebody else: there is nobody to tell.
    let Some(found) = dir(container)? else {
        return Ok(());
    };
    host::make_file(&found, &left.name(), EMPTY)?;
    let end = reach()?;
    if end < left.end {
        let cut = Meta { end, ..*left };
        match host::rename((&found, &left.name()), (&found, &cut.name()), 0) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    if !own {
        return Ok(());
    }
    match host::unlink(&found, &open_name(left.host, pid), false) {
        Err(error) if error.errno() != Errno::ENOENT => Err(error),
        _ => Ok(()),
    }
}

/// The file was cut to `size`.
pub fn cut(container: impl AsFd, size: u64) -> Result<()> {
    let Some(found) = dir(container)? else {
        return Ok(());
    };
    for (name, _) in host::names(&found)? {
        let Some(meta) = Meta::parse(&name).filter(|meta| meta.end > size) else {
            continue;
        };
        let cut = Meta {
            end: size,
            bytes: meta.bytes.min(size),
            ..meta
        };
        match host::rename((&found, &name), (&found, &cut.name()), 0) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// How many write, or were killed when they did.
pub fn writers(container: impl AsFd) -> Result<usize> {
    let Some(found) = dir(&container)? else {
        return Ok(0);
    };
    let names = host::names(&found)?;
    Ok(names
        .iter()
        .filter(|(name, _)| name.starts_with(OPEN))
        .count())
}

/// What the names say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Somebody writes, or was killed when it did.
    pub open: bool,
    /// How many writers have left something.
    pub writers: usize,
    /// How far the file reaches.
    pub end: u64,
    /// Bytes written.
    pub bytes: u64,
    /// When last, nanoseconds since the epoch.
    pub when: u64,
}

/// What is known of the file without its indexes.
pub fn known(container: impl AsFd) -> Result<Known> {
    let mut known = Known::default();
    let old = host::open(
        &container,
        OPEN_HOSTS,
        linux::O_PATH | linux::O_DIRECTORY,
        0,
    );
    if let Ok(old) = old {
        known.open = !host::names(&old)?.is_empty();
    }
    let Some(found) = dir(&container)? else {
        return Ok(known);
    };
    for (name, _) in host::names(&found)? {
        known.open |= name.starts_with(OPEN);
        let Some(meta) = Meta::parse(&name) else {
            continue;
        };
        known.writers += 1;
        known.end = known.end.max(meta.end);
        known.bytes = known.bytes.saturating_add(meta.bytes);
        let nanoseconds = (meta.micros % 1_000_000) * 1000;
        let when = meta.seconds.saturating_mul(1_000_000_000);
        let when = when.saturating_add(nanoseconds);
        known.when = known.when.max(when);
    }
    Ok(known)
}
