//! Removing names: who may, who is told, and what becomes of a file that loses its last one. The
//! order of errors is the kernel's (`do_unlinkat`, `do_rmdir`, fs/namei.c).

use super::path::existing;
use super::permission::allowed;
use crate::answer::Answer;
use crate::process::Process;
use crate::watch;
use alloc::ffi::CString;
use culvert::{Errno, FileKind, FileSystem};
use culvert_cache::orphans::{self, Losing};
use culvert_mounts::MountId;
use culvert_mounts::resolver::{Inside, Last};
use culvert_run::files::c_string;
use culvert_sys::fd::CWD;
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::raw::general::{W_OK, X_OK};

/// Whether the caller may remove or rename `found` (`may_delete`): its directory writable, and the
/// sticky bit's rule.
pub fn may_remove(found: &Inside<'_>, file_system: &dyn FileSystem) -> Result<(), Errno> {
    if file_system.capabilities().checks_permissions {
        return Ok(());
    }
    let caller = culvert_run::task::caller();
    let parent = match file_system.known_rights(&caller, found.parent) {
        Some(known) => known,
        None => file_system
            .attributes(&caller, found.parent)
            .map_err(|error| error.errno())?,
    };
    allowed(file_system, &parent, 3)?;
    if parent.permissions & 0o1000 != 0 && !caller.is_owner(parent.uid) {
        let owner = found.entry.as_ref().map(|entry| entry.attributes.uid);
        if owner.is_some_and(|owner| owner != caller.uid) {
            return Err(Errno::EPERM);
        }
    }
    Ok(())
}

/// The errno for removing or renaming a mount's target: its directory is looked at first, as for
/// every other name.
pub fn of_target(process: &Process, mount: MountId, errno: Errno) -> Errno {
    let parent = parent_of_target(process, mount);
    match fs::faccessat2(CWD, &parent, W_OK | X_OK, AtFlags::EACCESS) {
        Err(Errno::EACCES) => Errno::EACCES,
        _ => errno,
    }
}

/// The path of the directory in which a mount's target lies.
pub fn parent_of_target(process: &Process, mount: MountId) -> CString {
    let target = process.mounts.target(mount);
    let parent = &target[..target.iter().rposition(|&b| b == b'/').unwrap_or(0)];
    c_string(if parent.is_empty() { b"/" } else { parent })
}

/// Takes the name `found` of what is no directory (`do_unlinkat`, fs/namei.c).
pub fn remove_file(process: &Process, found: &Inside<'_>) -> Answer {
    let Last::Name(name) = &found.last else {
        return Err(match found.last {
            // With a slash behind it nothing more is looked at (`do_unlinkat`, fs/namei.c).
            Last::MountPoint if !found.trailing_slash => {
                of_target(process, found.mount, Errno::EISDIR)
            }
            _ => Errno::EISDIR,
        });
    };
    let file_system = culvert_cache::file_system(found.mount)?;
    if file_system.capabilities().read_only {
        return Err(Errno::EROFS);
    }
    let attributes = existing(found)?;
    if found.trailing_slash {
        return Err(if attributes.kind == FileKind::Directory {
            Errno::EISDIR
        } else {
            Errno::ENOTDIR
        });
    }
    may_remove(found, file_system)?;
    if attributes.kind == FileKind::Directory {
        return Err(Errno::EISDIR);
    }
    let losing = orphans::losing(found.mount, attributes);
    let of = (attributes.node, attributes.kind);
    watch::removed(file_system, found.mount, (found.parent, name), of, || {
        file_system
            .unlink(&culvert_run::task::caller(), found.parent, name)
            .map_err(|error| error.errno())
    })
    .map(|()| {
        losing.into_iter().for_each(Losing::lost);
        0
    })
}

/// Takes the name `found` of a directory (`do_rmdir`, fs/namei.c).
pub fn remove_directory(process: &Process, found: &Inside<'_>) -> Answer {
    let name = match &found.last {
        Last::Name(name) => name,
        Last::Dot => return Err(Errno::EINVAL),
        Last::DotDot => return Err(Errno::ENOTEMPTY),
        Last::MountPoint => return Err(of_target(process, found.mount, Errno::EBUSY)),
        _ => return Err(Errno::EBUSY),
    };
    let file_system = culvert_cache::file_system(found.mount)?;
    if file_system.capabilities().read_only {
        return Err(Errno::EROFS);
    }
    let attributes = existing(found)?;
    may_remove(found, file_system)?;
    if attributes.kind != FileKind::Directory && !file_system.capabilities().checks_permissions {
        return Err(Errno::ENOTDIR);
    }
    let of = (attributes.node, attributes.kind);
    watch::removed(file_system, found.mount, (found.parent, name), of, || {
        file_system
            .rmdir(&culvert_run::task::caller(), found.parent, name)
            .map_err(|error| error.errno())
    })
    .map(|()| 0)
}
