//! From the mounts as typed to mounts that can be served, where that is plain.

use crate::directory::entries;
use crate::path;
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::mount::{Mount, Request};
use culvert_drivers::{Source, declared_by, detect, find};
use culvert_run::files::c_string;
use culvert_sys::fd::CWD;
use culvert_sys::flags::{OFlags, Resolve};
use culvert_sys::{Errno, OwnedFd, fs};

/// The mounts that `requests` ask for, and whether any of their targets is a directory that is
/// there. None: one has not one source, a directory or a name, or a target that lies in another
/// one, or that is not an empty directory or a new name in a directory that is there; or a symbolic
/// link leads to it.
pub fn plain(requests: Vec<Request>) -> Option<(Vec<Mount>, bool)> {
    let (mut mounts, mut is_there) = (Vec::<Mount>::new(), false);
    for request in requests {
        let target = path::plain(&request.target)?;
        let mount = served(request, target)?;
        mount.check().ok()?;
        // The process that writes a log is started by the whole command.
        if !culvert_drivers::log::wanted(&mount).is_empty() {
            return None;
        }
        let meets = |other: &Mount| {
            path::is_within(&mount.target, &other.target)
                || path::is_within(&other.target, &mount.target)
        };
        if mount.source == mount.target || mounts.iter().any(meets) {
            return None;
        }
        is_there |= is_empty_directory(&mount.target)?;
        mounts.push(mount);
    }
    Some((mounts, is_there))
}

fn served(mut request: Request, target: Vec<u8>) -> Option<Mount> {
    if !request.more_sources.is_empty() {
        return None;
    }
    // Its server, or host, is started by the whole command.
    let driver = request.driver.as_deref();
    if driver.is_some_and(culvert_drivers::fuse::is_served) || request.option("place").is_some() {
        return None;
    }
    let driver = match &request.driver {
        Some(name) => find(name),
        None => detect(&request.source),
    };
    let driver = driver.ok()?.name;
    match declared_by(driver)?.source {
        Source::Name => {}
        Source::Directory => {
            request.source = path::plain(&request.source)?;
            directory(&c_string(&request.source), OFlags::PATH).ok()?;
        }
        Source::File(_) | Source::Path | Source::Branches | Source::Options { .. } => return None,
    }
    request.target = target;
    Some(request.into_mount(driver))
}

/// The directory at `path`, if no symbolic link leads to it.
fn directory(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::openat2(CWD, path, flags, 0, Resolve::NO_SYMLINKS)
}

/// Whether `target` is an empty directory. None where it is neither that nor a new name.
fn is_empty_directory(target: &[u8]) -> Option<bool> {
    match directory(&c_string(target), OFlags::RDONLY) {
        Ok(found) => entries(found.borrow()).ok()?.is_empty().then_some(true),
        Err(Errno::ENOENT) => {
            directory(&c_string(path::parent(target)), OFlags::PATH).ok()?;
            Some(false)
        }
        Err(_) => None,
    }
}
