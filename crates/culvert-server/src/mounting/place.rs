//! Where a mount is: a name in a directory that is held by a descriptor, and never a path that is
//! walked twice. Whoever may rename an ancestor of a mount point may put a link in its place, so
//! that the path leads to somebody else's mount; a mount point itself nobody can rename or remove.

use super::table;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, Statx, StatxFlags},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fmt,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

/// Which mount: the same path may lead to another one the next time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    /// Major and minor number of its file system's device.
    pub device: (u32, u32),
    /// Its number in mount tables; none before Linux 5.8, which does not tell it by descriptor.
    pub mount: Option<u64>,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device.0, self.device.1)
    }
}

impl Which {
    /// Whether both are the same mount, as far as both say.
    pub fn is(&self, other: &Self) -> bool {
        let numbers = self.mount.zip(other.mount);
        self.device == other.device && numbers.is_none_or(|(one, other)| one == other)
    }

    /// The mount that `found` says a file is on.
    const fn of(found: &Statx) -> Self {
        const MNT_ID: u32 = 0x1000;
        Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            mount: match found.stx_mask & MNT_ID {
                0 => None,
                _ => Some(found.stx_mnt_id),
            },
        }
    }

    /// The mount that the file open in `file` is on.
    ///
    /// # Errors
    /// Of statx(2).
    pub fn holding(file: BorrowedFd<'_>) -> rustix::io::Result<Self> {
        ask(file, OsStr::new(""), AtFlags::EMPTY_PATH).map(|found| Self::of(&found))
    }
}

/// statx(2) that asks for nothing: the kernel then tells device and mount by itself, also of a
/// mount whose server is gone, or serves others only (`fuse_getattr`, fs/fuse/dir.c).
fn ask(at: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> rustix::io::Result<Statx> {
    let flags =
        flags | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(at, name, flags, StatxFlags::empty())
}

/// A name in a directory that is open.
#[derive(Debug)]
pub struct Place {
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl Place {
    /// The place that the canonical `path` names now.
    ///
    /// # Errors
    /// Of open(2); `ENOTDIR` also where something on the way has become a link; `EINVAL`: the root.
    pub fn open(path: &Path) -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL);
        };
        let mut at = rustix::fs::openat(CWD, "/", flags, Mode::empty())?;
        for component in parent.components() {
            match component {
                Component::RootDir | Component::CurDir => {}
                Component::Normal(name) => {
                    at = rustix::fs::openat(&at, name, flags, Mode::empty())?;
                }
                Component::ParentDir | Component::Prefix(_) => return Err(Errno::INVAL),
            }
        }
        Ok(Self {
            parent: at,
            name: name.into(),
            path: path.into(),
        })
    }

    /// What it was called when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name in the directory.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// A path to the directory for this process and a child that has not executed anything yet.
    pub(super) fn directory(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.parent.as_raw_fd()).into()
    }

    /// A path for this process that leads there, whatever becomes of the directories above.
    pub(super) fn reached(&self) -> PathBuf {
        self.directory().join(&self.name)
    }

    /// The topmost mount that is seen there.
    ///
    /// # Errors
    /// Of statx(2).
    pub fn which(&self) -> rustix::io::Result<Which> {
        ask(self.parent.as_fd(), &self.name, AtFlags::empty()).map(|found| Which::of(&found))
    }

    /// What is there, a directory, with `flags` of open(2).
    ///
    /// # Errors
    /// Of open(2).
    pub fn directory_there(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty())
    }
}

/// How often a mount is looked for whose path changes meanwhile.
const TRIES: u32 = 8;

/// The place that `mount` is at now, and where it is seen; none: it is gone, or another one lies
/// over it.
pub fn place_of(mount: &Which) -> Option<Place> {
    for _ in 0..TRIES {
        let mut lines = table::lines().into_iter();
        let line = lines.find(|line| line.which.is(mount))?;
        if let Ok(place) = Place::open(&line.path())
            && place.which().is_ok_and(|found| found.is(mount))
        {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn a_place_is_not_found_by_links_and_stays_where_it_is() {
        let base = std::env::temp_dir().join(format!("culvert-place-{}", std::process::id()));
        let base = base.as_path();
        fs::create_dir_all(base.join("a/b")).unwrap();
        fs::create_dir_all(base.join("other/b")).unwrap();
        let canonical = fs::canonicalize(base).unwrap();
        let path = canonical.join("a/b");
        let place = Place::open(&path).unwrap();
        fs::write(path.join("mark"), "").unwrap();
        fs::rename(base.join("a"), base.join("old")).unwrap();
        symlink("other", base.join("a")).unwrap();
        // The path leads elsewhere, the place does not.
        assert!(path.exists() && !path.join("mark").exists());
        assert!(place.reached().join("mark").exists());
        assert_eq!(Place::open(&path).unwrap_err(), Errno::NOTDIR);
        let there = place.directory_there(OFlags::PATH).unwrap();
        assert_eq!(place.which(), Which::holding(there.as_fd()));
        assert_eq!(Place::open(Path::new("/")).unwrap_err(), Errno::INVAL);
        fs::remove_dir_all(base).unwrap();
    }
}
