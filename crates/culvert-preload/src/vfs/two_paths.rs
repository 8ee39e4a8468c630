//! Two paths of one operation (rename, link), each in a mount or not.

use super::backed::Backed;
use super::native::{AT_SYMLINK_NOFOLLOW, stat_at};
use super::path::{Found, Given, existing, find, find_resolved, look_again};
use super::remove::parent_of_target;
use super::targets::parent_is_target;
use crate::process::{self, Process};
use alloc::ffi::CString;
use culvert::{Errno, FileKind};
use culvert_mounts::MountId;
use culvert_mounts::resolver::{Inside, Last, LastStep};
use culvert_run::{files::c_string, memory::Path};
use culvert_sys::raw::general::AT_FDCWD;

/// What one of the two paths comes to.
// made once for a call, on the stack: a box would cost each path an allocation
#[allow(clippy::large_enum_variant)]
pub enum Side<'p> {
    /// In a mount.
    Inside(Inside<'p>),
    /// In the backing tree of a mount.
    Backed(Backed<'p>),
    /// Outside all mounts.
    Host(i32, Path<'p>),
    /// Outside all mounts, absolute: where a walk through one ended (NUL-terminated).
    Outside(CString),
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

    /// Whether a slash stands behind the last component.
    pub fn ends_in_slash(self) -> bool {
        self.path.bytes().ends_with(b"/")
    }

    /// Whether the path ends in `.` or `..`.
    pub fn is_no_name(self) -> bool {
        matches!(self.last_component().1, b"." | b"..")
    }

    /// The mount in which the directory before the last component lies; none: outside.
    pub fn mount_of_parent(self) -> Result<Option<MountId>, Errno> {
        let (parent, _) = self.last_component();
        let parent = searched(parent);
        let given = Given::new(self.directory, Path::of(&parent), LastStep::Follow);
        let (mount, mode) = match given.side(true)? {
            Side::Inside(found) => {
                let kind = existing(&found)?.kind;
                return match kind {
                    FileKind::Directory => Ok(Some(found.mount)),
                    _ => Err(Errno::ENOTDIR),
                };
            }
            Side::Backed(place) => {
                let found = stat_at(place.base, place.path_or_dot(), 0)?;
                (Some(place.mount), found.st_mode)
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
    pub fn side(self, walking: bool) -> Result<Side<'p>, Errno> {
        let Self {
            directory,
            path,
            last,
            ..
        } = self;
        let process = process::get();
        if path.is_empty() {
            return Err(Errno::ENOENT);
        }
        let mut found = match walking {
            true => find_resolved(process, self)?,
            false => find(process, self)?,
        };
        if matches!(found, Found::Kernel) {
            // Nothing natively by that name: a link outside may lead into a mount.
            let certain =
                process.targets_open && parent_is_target(process, directory, path.bytes());
            let follows = match last {
                LastStep::Follow => 0,
                _ => AT_SYMLINK_NOFOLLOW,
            };
            let missing = || {
                let found = stat_at(directory, path, follows);
                matches!(found, Err(Errno::ENOENT | Errno::ENOTDIR))
            };
            if certain || missing() {
                found = look_again(process, self, certain)?;
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
pub fn beside<'p>(process: &Process, side: Side<'p>, other: &Side<'_>, last: LastStep) -> Side<'p> {
    let (Side::Host(directory, path), Side::Backed(_) | Side::Inside(_)) = (&side, other) else {
        return side;
    };
    match look_again(process, Given::new(*directory, *path, last), true) {
        Ok(Found::Inside(found)) => Side::Inside(found),
        Ok(Found::Backed(place)) => Side::Backed(place),
        _ => side,
    }
}

impl Side<'_> {
    /// The mount whose target it is.
    pub fn target(&self) -> Option<MountId> {
        match self {
            Self::Inside(found) => matches!(found.last, Last::MountPoint).then_some(found.mount),
            Self::Backed(place) => place.path().is_empty().then_some(place.mount),
            Self::Host(..) | Self::Outside(_) => None,
        }
    }

    /// The mount in which the directory of the name lies. None: outside of all.
    pub fn mount_of_parent(&self) -> Option<MountId> {
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
    pub fn device_of_parent(&self) -> (Option<MountId>, Option<u64>) {
        let mount = self.mount_of_parent();
        if mount.is_some() {
            return (mount, None);
        }
        let found = match self.target() {
            Some(target) => stat_at(
                AT_FDCWD,
                Path::of(&parent_of_target(process::get(), target)),
                0,
            )
            .ok(),
            None => self.host().and_then(|(directory, path)| {
                stat_at(directory, Path::of(&searched_parent(path)), 0).ok()
            }),
        };
        (None, found.map(|it| it.st_dev))
    }

    /// The directory and path for the kernel, of one outside all mounts.
    pub fn host(&self) -> Option<(i32, Path<'_>)> {
        match self {
            Self::Host(directory, path) => Some((*directory, *path)),
            Self::Outside(path) => Some((AT_FDCWD, Path::of(path))),
            _ => None,
        }
    }

    /// The same, ENOENT if it is in a mount and not there.
    pub fn existing(self, last: LastStep) -> Result<Self, Errno> {
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
    pub fn missing(&self) -> Option<Errno> {
        let Self::Backed(place) = self else {
            return None;
        };
        stat_at(place.base, place.path_or_dot(), AT_SYMLINK_NOFOLLOW).err()
    }

    /// Whether it is a directory, links not followed: a mount's target is; an error where nothing is
    /// there.
    pub fn is_directory(&self) -> Result<bool, Errno> {
        let kind = match self {
            _ if self.target().is_some() => Some(FileKind::Directory),
            Self::Inside(found) => Some(existing(found)?.kind),
            Self::Backed(place) => {
                let found = stat_at(place.base, place.path_or_dot(), AT_SYMLINK_NOFOLLOW)?;
                FileKind::of_mode(found.st_mode)
            }
            Self::Host(directory, path) => {
                let found = stat_at(*directory, *path, AT_SYMLINK_NOFOLLOW)?;
                FileKind::of_mode(found.st_mode)
            }
            Self::Outside(path) => {
                let found = stat_at(AT_FDCWD, Path::of(path), AT_SYMLINK_NOFOLLOW)?;
                FileKind::of_mode(found.st_mode)
            }
        };
        Ok(kind == Some(FileKind::Directory))
    }

    /// Whether only a walk can tell what it is.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Backed(place) if !place.is_resolved())
    }
}

/// Whether both are in one mount with a backing tree.
pub fn same_tree(from: &Side<'_>, to: &Side<'_>) -> bool {
    matches!((from, to), (Side::Backed(from), Side::Backed(to))
        if from.mount == to.mount)
}

/// What is wrong with the directory of a name that the kernel looks up.
pub fn host_error(side: &Side<'_>) -> Option<Errno> {
    let (directory, path) = match side {
        Side::Backed(place) => (place.base, place.path()),
        _ => side.host()?,
    };
    stat_at(directory, Path::of(&searched_parent(path)), 0).err()
}

/// A path to the directory of the last component of `path`, as [`searched`].
fn searched_parent(path: Path<'_>) -> CString {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    let trimmed = &path[..end];
    let slash = trimmed.iter().rposition(|&b| b == b'/');
    searched(&trimmed[..slash.map_or(0, |slash| slash + 1)])
}

/// A path to the directory `path`, empty or with a slash behind it, that is found
/// only by who may search it, as a name in it is.
fn searched(path: &[u8]) -> CString {
    c_string([path, b"."].concat())
}
