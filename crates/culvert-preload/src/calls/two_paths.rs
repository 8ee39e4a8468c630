//! rename and link: two paths, each in a mount or not.

mod link;

use super::arguments::descriptor;
use super::done;
use crate::answer::Answer;
use crate::gone::{self, Losing};
use crate::memory::{Path, PathBuffer};
use crate::resolver::{Inside, Last, LastStep, MountId, Restrictions};
use crate::vfs::backed::{Backed, Name};
use crate::vfs::create::make;
use crate::vfs::native::stat_at;
use crate::vfs::path::{Found, existing, find, find_by_walking, look_again};
use crate::vfs::permission::allowed;
use crate::vfs::remove::{may_remove, of_target, parent_of_target};
use crate::vfs::targets::parent_is_target;
use crate::{process, watch};
use alloc::vec::Vec;
use culvert::{Attributes, Errno, FileKind, FileSystem, Node, RenameFlags};
use culvert_intercept::{Call, Outcome};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::{nr, syscall};
pub use link::link;

const AT_SYMLINK_NOFOLLOW: usize = 0x100;
const AT_SYMLINK_FOLLOW: usize = 0x400;
const AT_EMPTY_PATH: usize = 0x1000;

/// One of the two paths of link and rename, as the program gave it.
#[derive(Clone, Copy)]
struct Given<'p> {
    directory: i32,
    path: Path<'p>,
    last: LastStep,
}

/// What it comes to.
#[allow(clippy::large_enum_variant)] // made once for a call, on the stack: a box would cost each path an allocation
enum Side<'p> {
    Inside(Inside<'p>),
    Backed(Backed<'p>),
    /// Outside all mounts.
    Host(i32, Path<'p>),
    /// Outside all mounts, absolute: where a walk through one ended (NUL-terminated).
    Outside(Vec<u8>),
}

impl<'p> Given<'p> {
    /// Where the last component begins, slashes behind it left out.
    fn last_component(&self) -> (&'p [u8], &'p [u8]) {
        let path = self.path.bytes();
        let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
        let start = path[..end]
            .iter()
            .rposition(|&b| b == b'/')
            .map_or(0, |at| at + 1);
        path[..end].split_at(start)
    }

    /// Whether the path ends in `.` or `..`.
    fn is_no_name(self) -> bool {
        matches!(self.last_component().1, b"." | b"..")
    }

    /// The mount in which the directory before the last component lies; none: outside.
    fn mount_of_parent(self) -> Result<Option<MountId>, Errno> {
        let (parent, _) = self.last_component();
        let parent = searched(parent);
        let given = Given {
            directory: self.directory,
            path: Path::of(&parent),
            last: LastStep::Follow,
        };
        let (mount, mode) = match given.find(true)? {
            Side::Inside(found) => {
                let kind = existing(&found)?.kind;
                return match kind {
                    FileKind::Directory => Ok(Some(found.mount)),
                    _ => Err(Errno::ENOTDIR),
                };
            }
            Side::Backed(place) => {
                let path = match place.path() {
                    path if path.is_empty() => Path::of(b".\0"),
                    path => path,
                };
                (Some(place.mount), stat_at(place.base, path, 0)?.st_mode)
            }
            Side::Host(directory, path) => (None, stat_at(directory, path, 0)?.st_mode),
            Side::Outside(path) => (None, stat_at(AT_FDCWD, Path::of(&path), 0)?.st_mode),
        };
        match FileKind::of_mode(mode) {
            Some(FileKind::Directory) => Ok(mount),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Where the path leads, by a walk if `walking`, else by text where that will do.
    fn find(self, walking: bool) -> Result<Side<'p>, Errno> {
        let Self {
            directory,
            path,
            last,
        } = self;
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let mut found = find(directory, path, last, Restrictions(0))?;
        if walking && matches!(&found, Found::Backed(place) if !place.is_resolved()) {
            found = find_by_walking(directory, path, last, Restrictions(0))?;
        }
        if matches!(found, Found::Kernel) {
            // Nothing natively by that name: a link outside may lead into a mount.
            let certain = process::get().targets_open && parent_is_target(directory, path.bytes());
            let follows = match last {
                LastStep::Follow => 0,
                _ => AT_SYMLINK_NOFOLLOW,
            };
            let missing = || {
                let found = stat_at(directory, path, follows);
                matches!(found, Err(Errno::ENOENT | Errno::ENOTDIR))
            };
            if certain || missing() {
                found = look_again(directory, path, last, Restrictions(0), certain)
                    .unwrap_or(Found::Kernel);
            }
        }
        Ok(match found {
            Found::Inside(found) => Side::Inside(found),
            Found::Backed(place) => Side::Backed(place),
            Found::Outside(path) => Side::Outside(path),
            Found::MagicLink(_) | Found::Kernel => Side::Host(directory, path),
        })
    }
}

/// The same for what lies outside by its text, where the other path lies in a mount: a link outside
/// may lead there, even where the kernel finds a file on the way because the mount is bound in its
/// place.
fn beside<'p>(side: Side<'p>, other: &Side<'_>, last: LastStep) -> Side<'p> {
    let (Side::Host(directory, path), Side::Backed(_) | Side::Inside(_)) = (&side, other) else {
        return side;
    };
    match look_again(*directory, *path, last, Restrictions(0), true) {
        Ok(Found::Inside(found)) => Side::Inside(found),
        Ok(Found::Backed(place)) => Side::Backed(place),
        _ => side,
    }
}

impl Side<'_> {
    /// The mount whose target it is.
    fn target(&self) -> Option<MountId> {
        match self {
            Self::Inside(found) => matches!(found.last, Last::MountPoint).then_some(found.mount),
            Self::Backed(place) => place.path().is_empty().then_some(place.mount),
            Self::Host(..) | Self::Outside(_) => None,
        }
    }

    /// The mount in which the directory of the name lies. None: outside of all.
    fn mount_of_parent(&self) -> Option<MountId> {
        if let Some(mount) = self.target() {
            return process::get().mounts.parent(mount);
        }
        match self {
            Self::Inside(found) => Some(found.mount),
            Self::Backed(place) => Some(place.mount),
            Self::Host(..) | Self::Outside(_) => None,
        }
    }

    /// The same with the device of the directory, where that is the kernel's: what is outside may
    /// lie on several file systems, too.
    fn device_of_parent(&self) -> (Option<MountId>, Option<u64>) {
        let mount = self.mount_of_parent();
        if mount.is_some() {
            return (mount, None);
        }
        let found = match self.target() {
            Some(target) => stat_at(AT_FDCWD, Path::of(&parent_of_target(target)), 0).ok(),
            None => self.host().and_then(|(directory, path)| {
                stat_at(directory, Path::of(&searched_parent(path)), 0).ok()
            }),
        };
        (None, found.map(|it| it.st_dev))
    }

    /// The directory and path for the kernel, of one outside all mounts.
    fn host(&self) -> Option<(i32, Path<'_>)> {
        match self {
            Self::Host(directory, path) => Some((*directory, *path)),
            Self::Outside(path) => Some((AT_FDCWD, Path::of(path))),
            _ => None,
        }
    }

    /// The same, ENOENT if it is in a mount and not there.
    fn existing(self, last: LastStep) -> Result<Self, Errno> {
        match &self {
            Self::Inside(found) => existing(found).map(|_| ())?,
            Self::Host(directory, path) => {
                let flags = match last {
                    LastStep::Follow => 0,
                    _ => AT_SYMLINK_NOFOLLOW,
                };
                stat_at(*directory, *path, flags).map(|_| ())?
            }
            Self::Outside(path) => {
                stat_at(AT_FDCWD, Path::of(path), AT_SYMLINK_NOFOLLOW).map(|_| ())?
            }
            Self::Backed(_) => {}
        }
        Ok(self)
    }

    /// What is wrong with one in a backing tree, where [`Side::existing`] leaves that to the
    /// kernel.
    fn missing(&self) -> Option<Errno> {
        let Self::Backed(place) = self else {
            return None;
        };
        let path = match place.path() {
            path if path.is_empty() => Path::of(b".\0"),
            path => path,
        };
        stat_at(place.base, path, AT_SYMLINK_NOFOLLOW).err()
    }

    /// Whether only a walk can tell what it is.
    fn is_open(&self) -> bool {
        matches!(self, Self::Backed(place) if !place.is_resolved())
    }
}

/// Whether both are in one mount with a backing tree.
fn same_tree(from: &Side<'_>, to: &Side<'_>) -> bool {
    matches!((from, to), (Side::Backed(from), Side::Backed(to))
        if from.mount == to.mount)
}

/// rename(2), renameat(2), renameat2(2)
pub fn rename(call: &mut Call) -> Outcome {
    let [a, b, c, d, e, _] = call.args;
    let (from_directory, from, to_directory, to, flags) = match call.number {
        nr::RENAME => (AT_FDCWD, a, AT_FDCWD, b, 0),
        nr::RENAMEAT => (a as i32, b, c as i32, d, 0),
        _ => (a as i32, b, c as i32, d, e as u32),
    };
    if flags & !7 != 0 || (flags & RenameFlags::EXCHANGE != 0 && flags != RenameFlags::EXCHANGE) {
        return Outcome::Forward;
    }
    let (mut from_room, mut to_room) = (PathBuffer::new(), PathBuffer::new());
    let from = match from_room.read(from) {
        Ok(from) => from,
        Err(errno) => return done(Err(errno)),
    };
    // A bad new path is said after what is wrong with the old one (`filename_create`,
    // `filename_parentat` get it late).
    let to = to_room.read(to);
    let given = |directory, path| Given {
        directory,
        path,
        last: LastStep::Parent,
    };
    let to = to.map(|path| given(to_directory, path));
    let both = (given(from_directory, from), to);
    done(
        rename_given(both, flags, false)
            .unwrap_or_else(|| rename_given(both, flags, true).unwrap_or(Err(Errno::ELOOP))),
    )
}

/// None: a path must be walked first.
fn rename_given(
    (given_from, given_to): (Given<'_>, Result<Given<'_>, Errno>),
    flags: u32,
    walking: bool,
) -> Option<Answer> {
    let from = match given_from.find(walking) {
        Ok(from) => from,
        Err(Errno::ENAMETOOLONG) => return Some(Err(too_long(given_from, given_to, flags))),
        Err(errno) => return Some(Err(errno)),
    };
    let to = match given_to.and_then(|to| to.find(walking)) {
        Ok(to) => to,
        Err(Errno::ENAMETOOLONG) if given_to.is_ok() => {
            return Some(Err(too_long(given_from, given_to, flags)));
        }
        Err(_) if from.is_open() => return None,
        Err(errno) => return Some(Err(host_error(&from).unwrap_or(errno))),
    };
    let from = beside(from, &to, LastStep::Parent);
    let to = beside(to, &from, LastStep::Parent);
    if !same_tree(&from, &to) && (from.is_open() || to.is_open()) {
        return None;
    }
    if let (Some(from), Some(to)) = (from.host(), to.host()) {
        return Some(rename_natively(from, to, flags));
    }
    if given_from.is_no_name() || given_to.is_ok_and(Given::is_no_name) {
        return Some(Err(no_name(given_from, given_to, flags)));
    }
    match (from.target(), to.target()) {
        (None, None) => {}
        (from, to) if from == to && flags & RenameFlags::NO_REPLACE == 0 => return Some(Ok(0)),
        (from, to) if from == to => return Some(Err(Errno::EEXIST)),
        _ => return Some(Err(mixed(&from, &to))),
    }
    Some(match (&from, &to) {
        (Side::Backed(from), Side::Backed(to)) if from.mount == to.mount => {
            return rename_backed(from, to, flags);
        }
        (Side::Inside(from), Side::Inside(to)) if from.mount == to.mount => {
            rename_inside(from, to, flags)
        }
        _ => Err(mixed(&from, &to)),
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
            let old = from.find(true).and_then(|it| it.existing(from.last));
            old.err().unwrap_or(Errno::ENAMETOOLONG)
        }
    }
}

fn rename_natively(from: (i32, Path<'_>), to: (i32, Path<'_>), flags: u32) -> Answer {
    let args = [
        from.0 as usize,
        from.1.address(),
        to.0 as usize,
        to.1.address(),
        flags as usize,
    ];
    // SAFETY: both paths end in NUL.
    unsafe { syscall::call(nr::RENAMEAT2, args) }
}

/// Within a backing tree. None: a link stands in the way.
fn rename_backed(from: &Backed<'_>, to: &Backed<'_>, flags: u32) -> Option<Answer> {
    let (from_name, to_name) = (Name::of(from)?, Name::of(to)?);
    let root = Path::of(b".\0");
    let shown = |name: &Name<'_>| match name.name.is_empty() {
        true => root.address(),
        false => name.name.address(),
    };
    let args = [
        from_name.directory as usize,
        shown(&from_name),
        to_name.directory as usize,
        shown(&to_name),
        flags as usize,
    ];
    // SAFETY: both paths end in NUL.
    Some(unsafe { syscall::call(nr::RENAMEAT2, args) })
}

/// What is wrong with a rename whose sides are not in one mount (`do_renameat2`): a parent that is
/// missing, then that the parents lie in two; a mount's target lies in the directory above.
fn mixed(from: &Side<'_>, to: &Side<'_>) -> Errno {
    let missing = host_error(from).or_else(|| host_error(to));
    let target = from.target().or(to.target());
    missing.unwrap_or(match target {
        Some(mount) if from.device_of_parent() == to.device_of_parent() => {
            of_target(mount, Errno::EBUSY)
        }
        _ => Errno::EXDEV,
    })
}

/// What is wrong with the directory of a name that the kernel looks up.
fn host_error(side: &Side<'_>) -> Option<Errno> {
    let (directory, path) = match side {
        Side::Backed(place) => (place.base, place.path()),
        _ => side.host()?,
    };
    stat_at(directory, Path::of(&searched_parent(path)), 0).err()
}

/// A path (NUL-terminated) to the directory of the last component of `path`, as [`searched`].
fn searched_parent(path: Path<'_>) -> Vec<u8> {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    let trimmed = &path[..end];
    let slash = trimmed.iter().rposition(|&b| b == b'/');
    searched(&trimmed[..slash.map_or(0, |slash| slash + 1)])
}

/// A path (NUL-terminated) to the directory `path`, empty or with a slash behind it, that is found
/// only by who may search it, as a name in it is.
fn searched(path: &[u8]) -> Vec<u8> {
    [path, b".\0"].concat()
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
    let file_system = process::file_system(from.mount)?;
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
    if moved.kind != FileKind::Directory
        && (from.trailing_slash || (to.trailing_slash && flags & RenameFlags::EXCHANGE == 0))
    {
        return Err(Errno::ENOTDIR);
    }
    may_remove(from, file_system)?;
    may_remove(to, file_system)?;
    may_move(from, to, moved, file_system, flags)?;
    let replaced = to.entry.as_ref();
    let losing = replaced.and_then(|entry| gone::losing(to.mount, &entry.attributes));
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
                &process::caller(),
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
