//! Changing attributes: who may, what follows the change, and who is told (`setattr_prepare`,
//! fs/attr.c; `notify_change`).

use super::busy;
use super::node::On;
use super::permission::{granted, permits};
use crate::answer::Answer;
use crate::descriptors::handed;
use crate::process::Process;
use crate::watch::Event;
use culvert::{Attributes, Caller, Errno, File, FileKind, Rights, SetAttributes};
use culvert_cache::change;

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

/// The right to write.
const WRITE: u32 = 2;

/// Changes that somebody wants, and the right to make them.
pub type Wanted = (SetAttributes, Right);

/// Makes the changes that are `wanted`, whose error comes once it is known that there is something
/// to change (`vfs_utimes`, fs/utimes.c). Then the mount must be one that can be written
/// (`chmod_common`, fs/open.c), and the caller must have the right.
pub fn change(process: &Process, on: On<'_>, wanted: Result<Wanted, Errno>) -> Answer {
    // Where the size is wanted, it is compared.
    let is_resized = matches!(&wanted, Ok((changes, _)) if changes.size.is_some());
    let known = if is_resized { None } else { on.known_rights() };
    let attributes = match known {
        Some(known) => known,
        None => on.attributes()?,
    };
    let (changes, right) = &wanted?;
    let file_system = on.to_be_changed()?;
    let (name, caller) = (on.name()?, culvert_run::task::caller());
    let gone = match on {
        On::Held(held) => held.orphan(),
        On::Found(_) | On::Node(..) => None,
    };
    if changes.permissions.is_some()
        && attributes.kind == FileKind::Directory
        && file_system.capabilities().transient_nodes
    {
        handed::before_closing_directory();
    }
    let judge = || judge(&caller, &attributes, changes, *right);
    let decides = gone.is_some() || !file_system.capabilities().checks_permissions;
    if decides {
        judge()?;
    }
    // The new size, where one is wanted: what is asked for no other reason is not asked.
    let set = || {
        let size = |after: Attributes| after.size;
        let of_node = || match changes.size {
            Some(_) => file_system
                .set_attributes(&caller, name.node, changes)
                .map(size),
            None => file_system
                .change_attributes(&caller, name.node, changes)
                .map(|()| 0),
        };
        let changed = match (on, gone) {
            (_, Some(gone)) => gone.set_attributes(&caller, changes).map(size),
            // Drivers that know nodes by their names reach a file without one by the open file.
            (On::Held(held), None) if attributes.links == 0 => {
                of_node().or_else(|error| match error.errno() {
                    Errno::ESTALE | Errno::ENOENT if attributes.kind != FileKind::Directory => {
                        judge()?;
                        held.file()?.set_attributes(&caller, changes).map(size)
                    }
                    _ => Err(error),
                })
            }
            _ => of_node(),
        };
        changed.map_err(|error| on.report("setting attributes", &error))
    };
    match changes.size {
        Some(size) => {
            if let Err(busy) = busy::may_write(process, name) {
                // Where the driver decides, nobody has asked yet.
                granted(file_system, &caller, &attributes, WRITE)?;
                return Err(busy);
            }
            if decides {
                culvert_run::task::limits::may_grow_to(attributes.size, size)?;
            }
            change::resizing(name, || set().map(|size| ((), size)))?;
        }
        None => {
            set()?;
        }
    }
    on.tell(event_of(changes));
    Ok(0)
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
        Right::Write if !permits(caller, attributes, WRITE) => return Err(Errno::EACCES),
        Right::OwnerOrWrite if !owner && !permits(caller, attributes, WRITE) => {
            return Err(Errno::EACCES);
        }
        _ => {}
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
