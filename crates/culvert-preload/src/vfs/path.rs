//! What a path names: is it in a mount, where does it lead, and what if the kernel does not find
//! it.

use super::backed::Backed;
use super::host::{Kernel, place_of_here};
use super::native::{AT_SYMLINK_NOFOLLOW, stat_at};
use crate::process::{Here, Process};
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culvert::{Attributes, Errno, FileKind, Node};
use culvert_mounts::resolver::{Inside, LastStep, Magic, Quick, Resolved, Restrictions};
use culvert_mounts::{MountId, Place};
use culvert_run::{files::c_string, memory::Path};
use culvert_sys::raw::general::{AT_FDCWD, S_IFDIR, S_IFLNK, S_IFMT};

/// What a path argument comes to.
#[allow(clippy::large_enum_variant)] // made once for a call, on the stack: a box would cost each path an allocation
pub enum Found<'p> {
    /// Something in a mount.
    Inside(Inside<'p>),
    /// Something in the backing tree of a mount.
    Backed(Backed<'p>),
    /// The kernel gets this absolute path (NUL-terminated) instead.
    Outside(CString),
    /// A link of proc(5) to something of ours, not followed.
    MagicLink(Magic),
    /// The kernel gets the call as it is.
    Kernel,
}

/// The directory that a descriptor argument stands for; none for a foreign one. ENOTDIR when it is
/// a file of ours.
fn place_of(process: &Process, fd: i32) -> Result<Option<Place>, Errno> {
    match process.table.get(fd) {
        None => Ok(None),
        Some(held) if held.kind == FileKind::Directory => Ok(Some(Place::Mount {
            mount: held.mount,
            node: held.node,
        })),
        Some(_) => Err(Errno::ENOTDIR),
    }
}

/// The directory behind the foreign descriptor `fd`, by its path.
fn foreign_place(process: &Process, fd: i32) -> Option<Place> {
    let path = culvert_run::descriptor_path(fd).ok()?;
    (path.first() == Some(&b'/'))
        .then(|| process.mounts.place(&path).ok())
        .flatten()
}

/// Whether `fd` is open on something that no path begins at, whatever its name leads to by now.
fn is_no_directory(fd: i32) -> bool {
    culvert_run::stat_descriptor(fd).is_ok_and(|found| found.st_mode & S_IFMT != S_IFDIR)
}

/// Whether `path` does not begin at a directory that is given.
fn is_absolute(path: Path<'_>, restrictions: Restrictions) -> bool {
    path.first() == Some(&b'/') && restrictions.0 & Restrictions::IN_ROOT == 0
}

/// Where a path starts: `Err` is the call's answer, `Ok(None)` a directory that cannot be named.
fn start(
    process: &Process,
    directory: i32,
    path: Path<'_>,
    restrictions: Restrictions,
) -> Result<Option<Place>, Errno> {
    if is_absolute(path, restrictions) {
        return Ok(Some(Place::Host(Vec::new())));
    }
    if directory == AT_FDCWD {
        return process
            .with_working_directory(|here| here.cloned())
            .map(place_of_here)
            .transpose();
    }
    if let Some(place) = place_of(process, directory)? {
        return Ok(Some(place));
    }
    match process.table.backed(directory) {
        Some(mount) => crate::backing::directory(mount, directory).map(|p| Some(Place::Host(p))),
        None if is_no_directory(directory) => Err(Errno::ENOTDIR),
        None => Ok(foreign_place(process, directory)),
    }
}

/// Finds out what `path` is, by text, and by walking the mounts where text does not tell.
pub fn find<'p>(
    process: &Process,
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    match find_straight(process, directory, path, last, restrictions) {
        Some(Ok(inside)) => Ok(Found::Inside(inside)),
        Some(Err(error)) => Err(errno_of(&error)),
        None => find_by_text(process, directory, path, last, restrictions),
    }
}

/// The quickest answer inside a mount: plain names all the way, which the driver takes at once. Not
/// inlined, so that its large answer is made where it stays.
#[inline(never)]
pub fn find_straight<'p>(
    process: &Process,
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
) -> Option<culvert::Result<Inside<'p>>> {
    if restrictions != Restrictions(0) || culvert_run::task::has_left() {
        return None;
    }
    let (mount, dir, names) = match path.first()? {
        b'/' => {
            let (mount, names) = process.mounts.deepest(path.bytes())?;
            if super::own_file::origin(process, path.bytes()).is_some() {
                return None;
            }
            (mount, None, names)
        }
        _ => {
            let (mount, node) = directory_inside(process, directory)?;
            (mount, Some(node), path.bytes())
        }
    };
    culvert_cache::looked_at::bring_all();
    let mounts = &process.mounts;
    mounts.straight_in(&culvert_run::task::caller(), mount, dir, names, last)
}

/// The directory of a driver's that descriptor `directory`, or the working directory, is.
#[inline]
fn directory_inside(process: &Process, directory: i32) -> Option<(MountId, Node)> {
    if directory == AT_FDCWD {
        return process.working_node();
    }
    let held = process.table.get(directory)?;
    (held.kind == FileKind::Directory).then_some((held.mount, held.node))
}

/// The errno of a failed look at a path; its cause goes to the log.
pub fn errno_of(error: &culvert::Error) -> Errno {
    if let Some(cause) = error.cause() {
        culvert_sys::log!("a path on a mount cannot be followed: {cause}");
    }
    error.errno()
}

/// What [`find`] does where that is not enough.
pub fn find_by_text<'p>(
    process: &Process,
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    if path.is_empty() || culvert_run::task::has_left() {
        return Ok(Found::Kernel);
    }
    let absolute = is_absolute(path, restrictions);
    if restrictions == Restrictions(0)
        && let Some(place) = find_backed(process, directory, path, last)
    {
        return Ok(Found::Backed(place));
    }
    // A program from a mount runs as a file of the run directory: paths made from its own place
    // mean the mount.
    if let Some(original) = absolute
        .then(|| super::own_file::origin(process, path.bytes()))
        .flatten()
        .filter(|original| !original.is_empty())
    {
        return walk(
            process,
            &Place::Host(Vec::new()),
            original,
            last,
            restrictions,
        );
    }
    let mut known = None;
    let quick = if absolute {
        process.mounts.quick(None, path.bytes())
    } else if directory == AT_FDCWD {
        process.with_working_directory(|here| match here {
            Some(Here::Place(place)) => {
                let quick = process.mounts.quick(Some(place), path.bytes());
                if quick != Quick::Untouched {
                    known = Some(place.clone());
                }
                quick
            }
            Some(Here::Backed(_)) => Quick::Walk,
            None => Quick::Untouched,
        })
    } else {
        known = place_of(process, directory)?;
        match known.is_none() && process.table.backed(directory).is_some() {
            true => Quick::Walk,
            false => process.mounts.quick(known.as_ref(), path.bytes()),
        }
    };
    // A link into a mount is a crossing that the kernel cannot see; with RESOLVE_IN_ROOT the text
    // of a path says little.
    let text_decides = restrictions.0 & (Restrictions::NO_XDEV | Restrictions::IN_ROOT) == 0;
    if quick == Quick::Untouched && text_decides {
        return Ok(Found::Kernel);
    }
    let start = match known {
        Some(place) => Some(place),
        None => start(process, directory, path, restrictions)?,
    };
    let Some(start) = start else {
        return Ok(Found::Kernel);
    };
    walk(process, &start, path.bytes(), last, restrictions)
}

/// The quickest answer of all: the path begins in a backing tree that no other mount has to do
/// with, so that only links could lead elsewhere.
#[inline]
fn find_backed<'p>(
    process: &Process,
    directory: i32,
    path: Path<'p>,
    last: LastStep,
) -> Option<Backed<'p>> {
    if path[0] == b'/' {
        let (mount, backing) = process.mounts.direct_above(path.bytes())?;
        return Some(Backed::below_target(mount, backing, path));
    }
    let mount = process.backed_directory(directory)?;
    let backing = process.mounts.direct(mount)?;
    if path.starts_with(b"..") && matches!(path.get(2), None | Some(b'/')) {
        return Backed::above_directory(mount, backing, directory, path, last);
    }
    Some(Backed::below_directory(mount, backing, directory, path))
}

/// Resolves `path` component by component, in any case.
#[cold]
pub fn find_by_walking<'p>(
    process: &Process,
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    let start = start(process, directory, path, restrictions)?.ok_or(Errno::ENOENT)?;
    walk(process, &start, path.bytes(), last, restrictions)
}

#[inline]
fn walk<'p>(
    process: &Process,
    start: &Place,
    path: &'p [u8],
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    let caller = culvert_run::task::caller();
    resolved(
        process
            .mounts
            .walk(&Kernel, &caller, start, path, last, restrictions),
    )
}

#[inline(always)]
fn resolved<'p>(answer: culvert::Result<Resolved<'p>>) -> Result<Found<'p>, Errno> {
    match answer {
        Ok(Resolved::Inside(inside)) => Ok(Found::Inside(inside)),
        Ok(Resolved::Outside { path }) => Ok(match Backed::resolved(&path) {
            Some(backed) => Found::Backed(backed),
            None => Found::Outside(c_string(&path)),
        }),
        Ok(Resolved::MagicLink(magic)) => Ok(Found::MagicLink(magic)),
        Ok(Resolved::Untouched) => Ok(Found::Kernel),
        Err(error) => Err(errno_of(&error)),
    }
}

/// A second look at a path that the kernel did not find, or (`certain`) that led it to the empty
/// directory under a mount.
pub fn look_again<'p>(
    process: &Process,
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
    certain: bool,
) -> Result<Found<'p>, Errno> {
    // No link leads to what it does not find itself.
    if !certain && process.kernel_sees_all.load(Relaxed) {
        return Ok(Found::Kernel);
    }
    let Some(start) = start(process, directory, path, restrictions)? else {
        return Ok(Found::Kernel);
    };
    if certain {
        return walk(process, &start, path.bytes(), last, restrictions);
    }
    let (mounts, caller) = (&process.mounts, culvert_run::task::caller);
    resolved(mounts.after_miss(&Kernel, caller, &start, path.bytes(), last, restrictions))
}

/// Whether the absolute `path`, without restrictions, is the kernel's by its text: it enters no
/// mount, unless a link leads there.
pub fn is_kernels(process: &Process, path: Path<'_>) -> bool {
    path.first() == Some(&b'/')
        && !culvert_run::task::has_left()
        && process.mounts.quick(None, path.bytes()) == Quick::Untouched
        && super::own_file::origin(process, path.bytes()).is_none()
}

/// Whether the kernel's ENOENT or ENOTDIR for the absolute `path` is right.
pub fn confirms_miss(process: &Process, path: Path<'_>) -> bool {
    let root = Place::Host(Vec::new());
    process.kernel_sees_all.load(Relaxed)
        || process.mounts.confirms_miss(&Kernel, &root, path.bytes())
}

/// Whether the kernel finds a symbolic link at `path` below `directory`.
pub fn is_link(directory: i32, path: Path<'_>) -> bool {
    stat_at(directory, path, AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|found| found.st_mode & S_IFMT == S_IFLNK)
}

/// What is there, or ENOENT.
#[inline]
pub fn existing<'f>(found: &'f Inside<'_>) -> Result<&'f Attributes, Errno> {
    found
        .entry
        .as_ref()
        .map(|entry| &entry.attributes)
        .ok_or(Errno::ENOENT)
}
