//! access(2) and its relatives.

use super::arguments::{At, is_empty, last_step};
use super::done;
use super::path::on_path;
use crate::answer::Answer;
use crate::process;
use crate::resolver::{Inside, LastStep, MountId};
use crate::vfs::native::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use crate::vfs::path::{empty_path, existing};
use crate::vfs::permission::granted;
use culvert::{Attributes, Errno, FileKind};
use culvert_intercept::{Call, Outcome};
use culvert_sys::nr;

const AT_EACCESS: usize = 0x200;

/// What access(2) says of something in a mount.
fn accessible(found: &Inside<'_>, mode: usize) -> Answer {
    let attributes = existing(found)?;
    check_access(found.mount, attributes, mode)
}

fn check_access(mount: MountId, attributes: &Attributes, mode: usize) -> Answer {
    let mode = mode as u32;
    if mode == 0 {
        return Ok(0);
    }
    let file_system = process::file_system(mount)?;
    let read_only = file_system.capabilities().read_only;
    let on_disk = matches!(
        attributes.kind,
        FileKind::Regular | FileKind::Directory | FileKind::Symlink
    );
    if mode & 2 != 0 && read_only && on_disk {
        return Err(Errno::EROFS);
    }
    granted(file_system, &process::caller(), attributes, mode).map(|()| 0)
}

/// access(2)
pub fn access(call: &mut Call) -> Outcome {
    if call.args[1] & !7 != 0 {
        return Outcome::Forward;
    }
    process::as_real_user(|| {
        on_path(call, At::new(0, LastStep::Follow), None, |call, found| {
            accessible(found, call.args[1])
        })
    })
}

/// faccessat(2) and faccessat2(2)
pub fn faccessat(call: &mut Call) -> Outcome {
    let mode = call.args[2];
    let flags = if call.number == nr::FACCESSAT2 {
        call.args[3]
    } else {
        0
    };
    if mode & !7 != 0 || flags & !(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Outcome::Forward;
    }
    let effective = flags & AT_EACCESS != 0;
    match effective {
        true => look(call, flags),
        false => process::as_real_user(|| look(call, flags)),
    }
}

/// What faccessat(2) says to whom drivers are told.
fn look(call: &mut Call, flags: usize) -> Outcome {
    let [fd, path, mode, ..] = call.args;
    // No path at all is EFAULT here, where statx(2) takes it for an empty one.
    if flags & AT_EMPTY_PATH != 0 && path != 0 && is_empty(path) {
        return match empty_path(fd as i32) {
            Some(found) => {
                done(found.and_then(|(mount, attributes)| check_access(mount, &attributes, mode)))
            }
            None => Outcome::Forward,
        };
    }
    on_path(call, At::below(0, last_step(flags)), None, |call, found| {
        accessible(found, call.args[2])
    })
}
