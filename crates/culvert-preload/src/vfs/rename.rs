//! Renaming: the order of checks is the kernel's (`do_renameat2`, fs/namei.c); who watches is told,
//! and a file that loses its last name is kept for who has it open.

use super::backed::{Backed, Name};
use super::path::Given;
use super::path::existing;
use super::permission::allowed;
use super::remove::{may_remove, of_target};
use super::two_paths::{Side, beside, host_error, same_tree};
use crate::answer::Answer;
use crate::descriptors::handed;
use crate::process::Process;
use crate::watch;
use culvert::{Attributes, Errno, FileKind, FileSystem, RenameFlags};
use culvert_cache::orphans::{self, Losing};
use culvert_mounts::resolver::{Inside, Last, LastStep};
use culvert_run::memory::Path;
use culvert_sys::{BorrowedFd, fs};

/// None: a path must be walked first.
pub fn rename_given(
    process: &Process,
    (given_from, given_to): (Given<'_>, Result<Given<'_>, Errno>),
    flags: u32,
    walking: bool,
) -> Option<Answer> {
    let from = match given_from.side(walking) {
        Ok(from) => from,
        Err(Errno::ENAMETOOLONG) => return Some(Err(too_long(given_from, given_to, flags))),
        Err(errno) => return Some(Err(errno)),
    };
    let to = match given_to.and_then(|to| to.side(walking)) {
        Ok(to) => to,
        Err(Errno::ENAMETOOLONG) if given_to.is_ok() => {
            return Some(Err(too_long(given_from, given_to, flags)));
        }
        Err(_) if from.is_open() => return None,
        Err(errno) => return Some(Err(host_error(&from).unwrap_or(errno))),
    };
    let from = beside(process, from, &to, LastStep::Parent);
    let to = beside(process, to, &from, LastStep::Parent);
    if !same_tree(&from, &to) && (from.is_open() || to.is_open()) {
        return None;
    }
    let is_no_name = given_from.is_no_name() || given_to.is_ok_and(Given::is_no_name);
    // `..` leads outside, perhaps from a mount.
    let is_outside = |given: Given<'_>| given.mount_of_parent() == Ok(None);
    if let (Some(from), Some(to)) = (from.host(), to.host())
        && (!is_no_name || is_outside(given_from) && given_to.is_ok_and(is_outside))
    {
        return Some(rename_natively(from, to, flags));
    }
    if is_no_name {
        return Some(Err(no_name(given_from, given_to, flags)));
    }
    let slashes = (
        given_from.ends_in_slash(),
        given_to.is_ok_and(Given::ends_in_slash),
    );
    match (from.target(), to.target()) {
        (None, None) => {}
        (from, to) if from == to && flags & RenameFlags::NO_REPLACE == 0 => return Some(Ok(0)),
        (from, to) if from == to => return Some(Err(Errno::EEXIST)),
        _ => return Some(Err(mixed(process, (&from, &to), slashes, flags))),
    }
    Some(match (&from, &to) {
        (Side::Backed(from), Side::Backed(to)) if from.mount == to.mount => {
            return rename_backed(from, to, flags);
        }
        (Side::Inside(from), Side::Inside(to)) if from.mount == to.mount => {
            rename_inside(from, to, flags)
        }
        _ => Err(mixed(process, (&from, &to), slashes, flags)),
    })
}

/// Whether both directories are of one mount: EXDEV where they are not; the error of the first that
/// is not there.
fn of_one_mount(from: Given<'_>, to: Result<Given<'_>, Errno>) -> Result<(), Errno> {
    match from.mount_of_parent()? == to?.mount_of_parent()? {
        true => Ok(()),
        false => Err(Errno::EXDEV),
    }
}

/// What a rename comes to when a path ends in `.` or `..`: that is no name, but the directory
/// before it is looked at first.
fn no_name(from: Given<'_>, to: Result<Given<'_>, Errno>, flags: u32) -> Errno {
    match of_one_mount(from, to) {
        Err(errno) => errno,
        Ok(_) if !from.is_no_name() && flags & RenameFlags::NO_REPLACE != 0 => Errno::EEXIST,
        Ok(_) => Errno::EBUSY,
    }
}

/// What a rename comes to when one of the names is too long: names are looked up after both
/// directories (`do_renameat2`), the old one first.
fn too_long(from: Given<'_>, to: Result<Given<'_>, Errno>, flags: u32) -> Errno {
    match of_one_mount(from, to) {
        Err(errno) => errno,
        Ok(_) if from.is_no_name() || to.is_ok_and(Given::is_no_name) => no_name(from, to, flags),
        Ok(_) => {
            let old = from.side(true).and_then(|it| it.existing(from.last));
            old.err().unwrap_or(Errno::ENAMETOOLONG)
        }
    }
}

fn rename_natively(from: (i32, Path<'_>), to: (i32, Path<'_>), flags: u32) -> Answer {
    let (here, there) = (BorrowedFd::number(from.0), BorrowedFd::number(to.0));
    let flags = culvert_sys::flags::RenameFlags::from_bits(flags);
    fs::renameat2(here, from.1.c_str(), there, to.1.c_str(), flags).map(|()| 0)
}

/// Within a backing tree. None: a link stands in the way.
fn rename_backed(from: &Backed<'_>, to: &Backed<'_>, flags: u32) -> Option<Answer> {
    let from_name = Name::of(from)?;
    let to_name = Name::beside(to, from, &from_name)?;
    Some(rename_natively(from_name.shown(), to_name.shown(), flags))
}

/// What is wrong with a rename whose sides are not in one mount (`do_renameat2`): a parent that is
/// missing, then that the parents lie in two; a mount's target lies in the directory above, where
/// both names are looked up before anybody is asked who may change them. `slashes`: whether one
/// stands behind the names.
fn mixed(
    process: &Process,
    (from, to): (&Side<'_>, &Side<'_>),
    slashes: (bool, bool),
    flags: u32,
) -> Errno {
    if let Some(missing) = host_error(from).or_else(|| host_error(to)) {
        return missing;
    }
    let target = from.target().or(to.target());
    let Some(mount) = target.filter(|_| from.device_of_parent() == to.device_of_parent()) else {
        return Errno::EXDEV;
    };
    let exchanges = flags & RenameFlags::EXCHANGE != 0;
    let (moves_directory, onto_directory) = match (from.is_directory(), to.is_directory()) {
        (Err(missing), _) => return missing,
        (_, Ok(_)) if flags & RenameFlags::NO_REPLACE != 0 => return Errno::EEXIST,
        (_, Err(missing)) if exchanges => return missing,
        (Ok(from), to) => (from, to.ok()),
    };
    let other_is_none = match exchanges {
        true => onto_directory == Some(false),
        false => !moves_directory,
    };
    if !moves_directory && slashes.0 || other_is_none && slashes.1 {
        return Errno::ENOTDIR;
    }
    let errno = match (moves_directory, onto_directory) {
        (false, Some(true)) if !exchanges => Errno::EISDIR,
        (true, Some(false)) if !exchanges => Errno::ENOTDIR,
        _ => Errno::EBUSY,
    };
    of_target(process, mount, errno)
}

/// A directory that gets another parent is written itself, for its `..` (`vfs_rename`, fs/namei.c).
fn may_move(
    from: &Inside<'_>,
    to: &Inside<'_>,
    moved: &Attributes,
    file_system: &dyn FileSystem,
    flags: u32,
) -> Result<(), Errno> {
    const WRITE: u32 = 2;
    if from.parent == to.parent {
        return Ok(());
    }
    let replaced = to.entry.as_ref().map(|entry| &entry.attributes);
    let exchanged = replaced.filter(|_| flags & RenameFlags::EXCHANGE != 0);
    let is_directory = |of: &&Attributes| of.kind == FileKind::Directory;
    // ENOTDIR comes first, from who changes the names.
    if exchanged.is_none() && replaced.is_some_and(|of| !is_directory(&of)) {
        return Ok(());
    }
    for of in [Some(moved), exchanged]
        .into_iter()
        .flatten()
        .filter(is_directory)
    {
        allowed(file_system, of, WRITE)?;
    }
    Ok(())
}

fn rename_inside(from: &Inside<'_>, to: &Inside<'_>, flags: u32) -> Answer {
    let Last::Name(old) = &from.last else {
        return Err(Errno::EBUSY);
    };
    let Last::Name(new) = &to.last else {
        return Err(if flags & RenameFlags::NO_REPLACE != 0 {
            Errno::EEXIST
        } else {
            Errno::EBUSY
        });
    };
    let file_system = culvert_cache::file_system(from.mount)?;
    if file_system.capabilities().read_only {
        return Err(Errno::EROFS);
    }
    let moved = existing(from)?;
    if flags & RenameFlags::NO_REPLACE != 0 && to.entry.is_some() {
        return Err(Errno::EEXIST);
    }
    if flags & RenameFlags::EXCHANGE != 0 && to.entry.is_none() {
        return Err(Errno::ENOENT);
    }
    // What gets the other name, or, where they change places, what has it.
    let other = match (&to.entry, flags & RenameFlags::EXCHANGE) {
        (Some(entry), 1..) => entry.attributes.kind,
        _ => moved.kind,
    };
    let is_none = |kind: FileKind| kind != FileKind::Directory;
    if is_none(moved.kind) && from.trailing_slash || is_none(other) && to.trailing_slash {
        return Err(Errno::ENOTDIR);
    }
    // Two names of one file: who may do what is not asked (`vfs_rename`, fs/namei.c). Two spellings
    // of one name are a rename.
    let same = |entry: &culvert::Entry| entry.attributes.node == moved.node;
    if to.entry.as_ref().is_some_and(same) && !file_system.capabilities().case_insensitive {
        return Ok(0);
    }
    may_remove(from, file_system)?;
    may_remove(to, file_system)?;
    may_move(from, to, moved, file_system, flags)?;
    if moved.kind == FileKind::Directory && file_system.capabilities().transient_nodes {
        // What this program has inherited and not used is found by its path now.
        handed::before_closing_directory();
    }
    let replaced = to.entry.as_ref();
    let losing = replaced.and_then(|entry| orphans::losing(to.mount, &entry.attributes));
    let source = watch::Link {
        directory: from.parent,
        name: old,
        node: moved.node,
        kind: moved.kind,
    };
    let target = watch::Replaced {
        directory: to.parent,
        name: new,
        victim: to
            .entry
            .as_ref()
            .map(|it| (it.attributes.node, it.attributes.kind)),
    };
    watch::renamed(file_system, from.mount, source, target, flags, || {
        file_system
            .rename(
                &culvert_run::task::caller(),
                (from.parent, old),
                (to.parent, new),
                RenameFlags(flags),
            )
            .map_err(|error| error.errno())
    })
    .map(|()| {
        losing.into_iter().for_each(Losing::lost);
        0
    })
}
