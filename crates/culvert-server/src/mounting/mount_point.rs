//! Where a mount is: a name in a directory that is held by a descriptor, and never a path that is
//! walked twice. Whoever may rename an ancestor of a mount point may put a link in its place, so
//! that the path leads to somebody else's mount; a mount point itself nobody can rename or remove.

use super::{MountIdentity, identity::ask, table};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

/// A name in a directory that is open.
#[derive(Debug)]
pub struct MountPoint {
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl MountPoint {
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
    pub fn which(&self) -> rustix::io::Result<MountIdentity> {
        ask(self.parent.as_fd(), &self.name, AtFlags::empty())
            .map(|found| MountIdentity::of(&found))
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
pub fn mount_point_of(mount: &MountIdentity) -> Option<MountPoint> {
    for _ in 0..TRIES {
        let mut lines = table::lines().into_iter();
        let line = lines.find(|line| line.which.is(mount))?;
        if let Ok(place) = MountPoint::open(&line.path())
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
        let place = MountPoint::open(&path).unwrap();
        fs::write(path.join("mark"), "").unwrap();
        fs::rename(base.join("a"), base.join("old")).unwrap();
        symlink("other", base.join("a")).unwrap();
        // The path leads elsewhere, the place does not.
        assert!(path.exists() && !path.join("mark").exists());
        assert!(place.reached().join("mark").exists());
        assert_eq!(MountPoint::open(&path).unwrap_err(), Errno::NOTDIR);
        let there = place.directory_there(OFlags::PATH).unwrap();
        assert_eq!(place.which(), MountIdentity::holding(there.as_fd()));
        assert_eq!(MountPoint::open(Path::new("/")).unwrap_err(), Errno::INVAL);
        fs::remove_dir_all(base).unwrap();
    }
}
