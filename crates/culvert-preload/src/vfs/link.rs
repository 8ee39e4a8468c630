//! Making another name for what has one (`do_linkat`, fs/namei.c).

use super::backed::{Backed, Name};
use super::create::{Making, may_make};
use super::native::{AT_EMPTY_PATH, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW, stat_at};
use super::path::Given;
use super::path::existing;
use super::two_paths::{Side, beside, host_error, same_tree};
use crate::answer::Answer;
use crate::process::{self, Process};
use culvert::{Attributes, Errno, FileKind, Node, Rights};
use culvert_mounts::MountId;
use culvert_mounts::resolver::{Inside, Last, LastStep};
use culvert_run::{files::c_string, memory::Path};
use culvert_sys::flags::AtFlags;
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::{BorrowedFd, fs};

/// None: a path must be walked first.
pub fn link_given(
    process: &Process,
    from: Given<'_>,
    to: Result<Given<'_>, Errno>,
    flags: usize,
    walking: bool,
) -> Option<Answer> {
    let find_target = || to.and_then(|to| to.side(walking));
    if flags & AT_EMPTY_PATH != 0
        && from.path.first() != Some(&b'/')
        && let Err(errno) = may_begin_at(process, from.directory)
    {
        return Some(Err(errno));
    }
    if from.path.is_empty() && flags & AT_EMPTY_PATH != 0 {
        return match find_target() {
            Ok(target) => link_descriptor(process, from.directory, &target, flags),
            Err(errno) => Some(Err(errno)),
        };
    }
    let source = from.side(walking).and_then(|it| it.existing(from.last));
    let (source, target) = match source.map(|source| (source, find_target())) {
        Ok((source, Ok(target))) => (source, target),
        Ok((source, Err(_))) if source.is_open() => return None,
        Ok((source, Err(errno))) => return Some(Err(source.missing().unwrap_or(errno))),
        Err(errno) => return Some(Err(errno)),
    };
    let source = beside(process, source, &target, from.last);
    let target = beside(process, target, &source, LastStep::Parent);
    if !same_tree(&source, &target) && (source.is_open() || target.is_open()) {
        return None;
    }
    if let (Some(source), Some(target)) = (source.host(), target.host()) {
        return Some(link_natively(source, target, flags));
    }
    Some(match (&source, &target) {
        (Side::Inside(source), Side::Inside(found)) => existing(source).and_then(|attributes| {
            let linked = link_node(found, source.mount, attributes.node, attributes.kind)?;
            had_one_name(source, attributes);
            Ok(linked)
        }),
        (Side::Backed(source), Side::Backed(place)) if source.mount == place.mount => {
            return link_backed(source, place, from.last);
        }
        // A link of proc(5) to an open file, which may be one without a name in this very tree.
        (Side::Host(directory, path), Side::Backed(place))
            if from.last == LastStep::Follow && path.starts_with(b"/proc/") =>
        {
            return link_to_place((*directory, *path), place, flags);
        }
        (Side::Host(..) | Side::Outside(_), _) => {
            let (directory, path) = source.host()?;
            stat_at(directory, path, AT_SYMLINK_NOFOLLOW)
                .and_then(|_| makeable(&target))
                .and(Err(Errno::EXDEV))
        }
        (Side::Inside(source), _) => existing(source)
            .and_then(|_| makeable(&target))
            .and(Err(Errno::EXDEV)),
        (Side::Backed(_), _) => match source.missing() {
            Some(errno) => Err(errno),
            None => makeable(&target).and(Err(Errno::EXDEV)),
        },
    })
}

/// What AT_EMPTY_PATH asks of the descriptor at which a path begins, whatever is behind it
/// (`path_init`, fs/namei.c): it is for who has opened it, and who may read every directory
/// (CAP_DAC_READ_SEARCH).
fn may_begin_at(process: &Process, fd: i32) -> Result<(), Errno> {
    if fd == AT_FDCWD {
        return Ok(());
    }
    if process.run.is_internal(fd) {
        return Err(Errno::EBADF);
    }
    culvert_run::files::close_on_exec(fd)?;
    let own = match process.table.get(fd) {
        // Of a table that others change it is not known who has opened what.
        Some(held) if !process.table.is_shared() => held.is_of_same_credentials(),
        _ => opened_here(fd),
    };
    match own || culvert_run::task::caller().has(Rights::DAC_READ_SEARCH) {
        true => Ok(()),
        false => Err(Errno::ENOENT),
    }
}

/// Whether the kernel's descriptor was opened with this process's credentials: the right is looked
/// at first, and `/` is no name for anything.
fn opened_here(fd: i32) -> bool {
    let answer = link_natively(
        (fd, Path::of(c"")),
        (AT_FDCWD, Path::of(c"/")),
        AT_EMPTY_PATH,
    );
    answer == Err(Errno::EEXIST)
}

/// Whether the new name may be made, wherever it would lead.
fn makeable(target: &Side<'_>) -> Answer {
    match target {
        Side::Inside(found) => may_make(found).map(|()| 0),
        Side::Backed(place) => absent(place),
        Side::Host(..) | Side::Outside(_) => match target.host() {
            Some((directory, path)) => match is_there(directory, path) {
                Ok(()) => Err(Errno::EEXIST),
                Err(_) => match host_error(target) {
                    Some(errno) => Err(errno),
                    // proc(5) has no names that are missing (`proc_lookup_de`, `proc_pid_lookup`).
                    None if path.last() == Some(&b'/') || path.starts_with(b"/proc/") => {
                        Err(Errno::ENOENT)
                    }
                    None => Ok(0),
                },
            },
            None => host_error(target).map_or(Ok(0), Err),
        },
    }
}

/// Whether a name that is no directory's could be made at `place`: EEXIST and ENOENT come before
/// EXDEV (`filename_create`, fs/namei.c).
fn absent(place: &Backed<'_>) -> Answer {
    let path = place.path();
    if path.is_empty() {
        return Err(Errno::EEXIST);
    }
    match is_there(place.base, path) {
        Ok(()) => Err(Errno::EEXIST),
        Err(Errno::ENOENT) if path.last() != Some(&b'/') => Ok(0),
        Err(errno) => Err(errno),
    }
}

/// Whether there is something by the name that `path` ends in, whatever the slashes behind it say
/// of it: stat(2) would follow a link then.
fn is_there(directory: i32, path: Path<'_>) -> Result<(), Errno> {
    let bytes = path.bytes();
    let end = bytes
        .iter()
        .rposition(|&b| b != b'/')
        .map_or(1, |at| at + 1);
    let name = c_string(&bytes[..end.min(bytes.len())]);
    stat_at(directory, Path::of(&name), AT_SYMLINK_NOFOLLOW).map(|_| ())
}

/// linkat(2) with AT_EMPTY_PATH: the file behind a descriptor.
fn link_descriptor(process: &Process, fd: i32, target: &Side<'_>, flags: usize) -> Option<Answer> {
    let empty = Path::of(c"");
    if target.is_open() {
        return None;
    }
    if fd == AT_FDCWD
        && let Some((mount, _)) = process.working_node()
    {
        // It is a directory, which has one name.
        return Some(makeable(target).and(match target {
            Side::Inside(found) if found.mount == mount => Err(Errno::EPERM),
            _ => Err(Errno::EXDEV),
        }));
    }
    Some(match (process.table.get(fd), target) {
        (None, Side::Backed(place)) => return link_to_place((fd, empty), place, flags),
        // What has lost its last name gets none any more (`vfs_link`).
        (Some(held), Side::Inside(found)) if held.orphan().is_some() => {
            may_make(found).and(Err(Errno::ENOENT))
        }
        (Some(held), Side::Inside(found)) => link_node(found, held.mount, held.node, held.kind),
        (None, Side::Inside(found)) => may_make(found).and(Err(Errno::EXDEV)),
        (Some(_), _) => makeable(target).and(Err(Errno::EXDEV)),
        (None, _) => link_natively((fd, empty), target.host()?, flags),
    })
}

fn link_natively(from: (i32, Path<'_>), to: (i32, Path<'_>), flags: usize) -> Answer {
    let (here, there) = (BorrowedFd::number(from.0), BorrowedFd::number(to.0));
    let flags = AtFlags::from_bits(flags as u32);
    fs::linkat(here, from.1.c_str(), there, to.1.c_str(), flags).map(|()| 0)
}

/// Another name, in a backing tree, for something that the kernel knows. None: a link stands in the
/// way.
fn link_to_place(from: (i32, Path<'_>), place: &Backed<'_>, flags: usize) -> Option<Answer> {
    Some(link_natively(from, Name::of(place)?.shown(), flags))
}

/// Within a backing tree. None: a link stands in the way.
fn link_backed(from: &Backed<'_>, to: &Backed<'_>, last: LastStep) -> Option<Answer> {
    let name = Name::of(from)?;
    let resolved = from.is_resolved() || from.is_name_left_to_kernel();
    if !resolved
        && (from.path().last() == Some(&b'/') || (last == LastStep::Follow && name.is_link()))
    {
        return None;
    }
    let follow = from.is_name_left_to_kernel() && last == LastStep::Follow;
    let flags = if follow { AT_SYMLINK_FOLLOW } else { 0 };
    let target = Name::beside(to, from, &name)?;
    Some(link_natively(name.shown(), target.shown(), flags))
}

/// `source` was the only name of its file, which has another one now: what is open of the file was
/// opened by that. A driver whose nodes are known by their names knows it itself.
fn had_one_name(source: &Inside<'_>, before: &Attributes) {
    let is_asked = culvert_cache::file_system(source.mount)
        .is_ok_and(|file_system| !file_system.capabilities().transient_nodes);
    let Last::Name(name) = &source.last else {
        return;
    };
    if before.links != 1 || !is_asked {
        return;
    }
    process::get().table.each(|_, description| {
        if (description.mount, description.node) == (source.mount, before.node) {
            let mut opened_as = description.opened_as.lock();
            opened_as.get_or_insert_with(|| (source.parent, name.as_ref().into()));
        }
    });
}

/// Another name for a node of a mount.
fn link_node(found: &Inside<'_>, mount: MountId, node: Node, kind: FileKind) -> Answer {
    let making = Making::of(found, false)?;
    if found.mount != mount {
        return Err(Errno::EXDEV);
    }
    if kind == FileKind::Directory {
        return Err(Errno::EPERM);
    }
    making.link(node).map(|()| 0)
}
