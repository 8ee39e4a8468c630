//! Changing attributes: who may, what follows the change, and who is told (`setattr_prepare`,
//! fs/attr.c; `notify_change`).

use super::path::existing;
use super::permission::permits;
use crate::answer::Answer;
use crate::description::Held;
use crate::paging::change;
use crate::process;
use crate::resolver::{Inside, MountId};
use crate::watch::{self, Event};
use culvert::{Attributes, Caller, Errno, File, FileKind, Rights, SetAttributes};

/// Who may make a change (`setattr_prepare`, fs/attr.c).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// The owner.
    Owner,
    /// Whoever may write.
    Write,
    /// Who may give it to the users and groups named.
    Chown,
    /// The owner, or whoever may write (times set to now).
    OwnerOrWrite,
}

/// What is told to who watches that `changes` were made (`fsnotify_change`,
/// include/linux/fsnotify.h).
fn event_of(changes: &SetAttributes) -> Event {
    let attributes =
        changes.permissions.is_some() || changes.uid.is_some() || changes.gid.is_some();
    match (changes.atime.is_some(), changes.mtime.is_some()) {
        _ if attributes => Event::Attributes,
        (true, false) => Event::Access,
        (false, true) => Event::Modify,
        (false, false) if changes.size.is_some() => Event::Modify,
        _ => Event::Attributes,
    }
}

/// The change of what a path led to.
pub fn change_found(found: &Inside<'_>, changes: &SetAttributes, right: Right) -> Answer {
    let attributes = existing(found)?;
    let answer = change(found.mount, attributes, changes, right)?;
    watch::tell(found.mount, attributes.node, found.at(), event_of(changes));
    Ok(answer)
}

/// The change of what a descriptor is open on.
pub fn change_held(held: &Held, changes: &SetAttributes, right: Right) -> Answer {
    let attributes = crate::description::described(held)?;
    let answer = match held.gone() {
        Some(gone) => {
            judge(&process::caller(), &attributes, changes, right)?;
            gone.set_attributes(changes)
                .map(|_| 0)
                .map_err(|error| crate::description::report(held, "setting attributes", &error))?
        }
        None => match change(held.mount, &attributes, changes, right) {
            // Drivers that know nodes by their names reach a file without one by the open file.
            Err(Errno::ESTALE | Errno::ENOENT) if attributes.links == 0 => {
                judge(&process::caller(), &attributes, changes, right)?;
                let file = held.file()?;
                file.set_attributes(changes).map_err(|error| {
                    crate::description::report(held, "setting attributes", &error)
                })?;
                0
            }
            answer => answer?,
        },
    };
    held.tell(event_of(changes));
    Ok(answer)
}

fn change(
    mount: MountId,
    attributes: &Attributes,
    changes: &SetAttributes,
    right: Right,
) -> Answer {
    let file_system = process::file_system(mount)?;
    if file_system.capabilities().read_only {
        return Err(Errno::EROFS);
    }
    let caller = process::caller();
    let set = || {
        let set = || {
            file_system
                .set_attributes(&caller, attributes.node, changes)
                .map_err(|error| error.errno())
        };
        match changes.size {
            Some(_) => change::resizing(mount, attributes.node, || {
                let after = set()?;
                Ok((0, after.size))
            }),
            None => set().map(|_| 0),
        }
    };
    if file_system.capabilities().checks_permissions {
        return set();
    }
    judge(&caller, attributes, changes, right)?;
    set()
}

/// Whether `caller` may make `changes` to a file with these attributes.
fn judge(
    caller: &Caller<'_>,
    attributes: &Attributes,
    changes: &SetAttributes,
    right: Right,
) -> Result<(), Errno> {
    let owner = caller.is_owner(attributes.uid);
    match right {
        Right::Chown => return may_chown(caller, attributes, changes),
        Right::Owner if !owner => return Err(Errno::EPERM),
        Right::Write if !permits(caller, attributes, 2) => return Err(Errno::EACCES),
        Right::OwnerOrWrite if !owner && !permits(caller, attributes, 2) => {
            return Err(Errno::EACCES);
        }
        _ => {}
    }
    if let Some(size) = changes.size {
        process::limits::may_grow_to(attributes.size, size)?;
    }
    Ok(())
}

/// `chown_ok`, `chgrp_ok` and what `setattr_prepare` asks of who takes set-user-ID off (fs/attr.c):
/// to name nobody needs no right, unless that changes the mode.
fn may_chown(
    caller: &Caller<'_>,
    attributes: &Attributes,
    changes: &SetAttributes,
) -> Result<(), Errno> {
    let own = caller.uid == attributes.uid;
    let any = caller.has(Rights::CHOWN);
    let user = changes.uid.is_none_or(|uid| own && uid == attributes.uid);
    let group = |gid| own && (gid == attributes.gid || caller.in_group(gid));
    let mode = attributes.permissions;
    let in_group = caller.keeps_set_group_id(attributes.gid);
    let takes = mode & 0o4000 != 0 || mode & 0o2000 != 0 && (mode & 0o010 != 0 || !in_group);
    let is_directory = attributes.kind == FileKind::Directory;
    let granted = (any || user && changes.gid.is_none_or(group))
        && (is_directory || !takes || caller.is_owner(attributes.uid));
    granted.then_some(()).ok_or(Errno::EPERM)
}
