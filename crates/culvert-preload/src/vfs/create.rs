//! Making names: who may, and who is told. The order of errors is the kernel's (`filename_create`,
//! fs/namei.c), a read-only mount's EROFS in its place among them.

use super::permission::allowed;
use crate::process::{self, limits};
use crate::resolver::{Inside, Last, MountId};
use crate::watch;
use culvert::{Attributes, Entry, Errno, FileSystem, Node, Rights};
use culvert_sys::raw::general::{S_IFBLK, S_IFCHR, S_IFMT, S_IFREG, S_IFSOCK};

/// The device that stands for a removed name in overlays, which everybody may make (`WHITEOUT_DEV`,
/// include/linux/fs.h).
const WHITEOUT: u32 = 0;

/// mkdir(2)
pub fn directory(found: &Inside<'_>, mode: u32) -> Result<(), Errno> {
    let making = Making::of(found, true)?;
    let mode = making.mode(mode & 0o1777);
    making.by(|file_system, parent, name| {
        file_system.mkdir(&process::caller(), parent, name, mode)
    })?;
    Ok(())
}

/// mknod(2); without a kind in `mode` it is a regular file.
pub fn node(found: &Inside<'_>, mode: u32, device: u64) -> Result<(), Errno> {
    let making = Making::of(found, false)?;
    let kind = match mode & S_IFMT {
        0 => S_IFREG,
        kind => kind,
    };
    if matches!(kind, S_IFCHR | S_IFBLK)
        && !(kind == S_IFCHR && device as u32 == WHITEOUT)
        && !process::caller().has(Rights::MKNOD)
    {
        return Err(Errno::EPERM);
    }
    let mode = kind | making.mode(mode & 0o7777);
    making.by(|file_system, parent, name| {
        file_system.mknod(&process::caller(), parent, name, mode, device)
    })?;
    Ok(())
}

/// bind(2): the inode of a socket.
pub fn socket(found: &Inside<'_>) -> Result<Attributes, Errno> {
    let making = Making::of(found, false)?;
    let mode = S_IFSOCK | making.mode(0o777);
    making.by(|file_system, parent, name| {
        file_system.mknod(&process::caller(), parent, name, mode, 0)
    })
}

/// symlink(2)
pub fn symbolic_link(found: &Inside<'_>, target: &[u8]) -> Result<(), Errno> {
    Making::of(found, false)?.by(|file_system, parent, name| {
        file_system.symlink(&process::caller(), parent, name, target)
    })?;
    Ok(())
}

/// Whether a name may be made there that is no directory's.
pub fn may_make(found: &Inside<'_>) -> Result<(), Errno> {
    Making::of(found, false).map(|_| ())
}

/// A name that may be made.
pub(super) struct Making<'a> {
    mount: MountId,
    file_system: &'static dyn FileSystem,
    parent: Node,
    name: &'a [u8],
}

impl<'a> Making<'a> {
    /// What all that makes a name checks before (`filename_create`).
    pub fn of(found: &'a Inside<'_>, directory: bool) -> Result<Self, Errno> {
        let Last::Name(name) = &found.last else {
            return Err(Errno::EEXIST);
        };
        if found.entry.is_some() {
            return Err(Errno::EEXIST);
        }
        if found.trailing_slash && !directory {
            return Err(Errno::ENOENT);
        }
        let file_system = process::file_system(found.mount)?;
        if file_system.capabilities().read_only {
            return Err(Errno::EROFS);
        }
        let parent = file_system
            .attributes(found.parent)
            .map_err(|error| error.errno())?;
        allowed(file_system, &parent, 3)?;
        Ok(Self {
            mount: found.mount,
            file_system,
            parent: found.parent,
            name,
        })
    }

    /// The mode that something new gets of `mode`.
    fn mode(&self, mode: u32) -> u32 {
        limits::creation_mode(self.file_system, mode)
    }

    /// Makes the name by `make`, and tells of it: the reference on what is new goes back.
    fn by(
        &self,
        make: impl FnOnce(&dyn FileSystem, Node, &[u8]) -> culvert::Result<Entry>,
    ) -> Result<Attributes, Errno> {
        let entry = watch::made(self.mount, (self.parent, self.name), || {
            make(self.file_system, self.parent, self.name).map_err(|error| error.errno())
        })?;
        self.file_system.forget(entry.attributes.node, 1);
        Ok(entry.attributes)
    }

    /// The same for another name of `node`.
    pub fn link(&self, node: Node) -> Result<(), Errno> {
        let at = (self.parent, self.name);
        let entry = watch::linked(self.mount, node, at, || {
            self.file_system
                .link(&process::caller(), node, self.parent, self.name)
                .map_err(|error| error.errno())
        })?;
        self.file_system.forget(entry.attributes.node, 1);
        Ok(())
    }
}
