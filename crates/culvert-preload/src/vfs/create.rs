//! Making names: who may, and who is told. The order of errors is the kernel's (`filename_create`,
//! fs/namei.c), a read-only mount's EROFS in its place among them.

use super::node::On;
use super::opened::to_driver;
use super::path::existing;
use super::permission::allowed;
use crate::watch;
use culvert::{Attributes, Entry, Errno, FileKind, FileSystem, Node, Opened, Rights};
use culvert_mounts::MountId;
use culvert_mounts::resolver::{Inside, Last};
use culvert_run::task::limits;
use culvert_sys::raw::general::{S_IFBLK, S_IFCHR, S_IFMT, S_IFREG, S_IFSOCK};

/// The device that stands for a removed name in overlays, which everybody may make (`WHITEOUT_DEV`,
/// include/linux/fs.h).
const WHITEOUT: u32 = 0;

/// What a directory is asked for whose names change.
const WRITE_AND_SEARCH: u32 = 3;

/// mkdir(2)
pub fn directory(found: &Inside<'_>, mode: u32) -> Result<(), Errno> {
    let making = Making::of(found, true)?;
    let mode = making.mode(mode & 0o1777);
    making.by(|file_system, parent, name| {
        file_system.mkdir(&culvert_run::task::caller(), parent, name, mode)
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
        && !culvert_run::task::caller().has(Rights::MKNOD)
    {
        return Err(Errno::EPERM);
    }
    let mode = kind | making.mode(mode & 0o7777);
    making.by(|file_system, parent, name| {
        file_system.mknod(&culvert_run::task::caller(), parent, name, mode, device)
    })?;
    Ok(())
}

/// bind(2): the inode of a socket.
pub fn socket(found: &Inside<'_>) -> Result<Attributes, Errno> {
    let making = Making::of(found, false)?;
    let mode = S_IFSOCK | making.mode(0o777);
    making.by(|file_system, parent, name| {
        file_system.mknod(&culvert_run::task::caller(), parent, name, mode, 0)
    })
}

/// open(2) with O_CREAT (`lookup_open`, fs/namei.c): the file is opened as it is made, and the
/// reference on it is the caller's.
pub fn file(found: &Inside<'_>, flags: u32, mode: u32) -> Result<(Attributes, Opened), Errno> {
    let making = Making::of(found, true)?;
    let mode = making.mode(mode & 0o7777);
    let mut opened = None;
    let attributes = making.keeping(|file_system, parent, name| {
        let made = file_system.create(
            &culvert_run::task::caller(),
            parent,
            name,
            to_driver(flags),
            mode,
        );
        let (entry, file) = made.map_err(|error| appeared(file_system, parent, name, &error))?;
        opened = Some(file);
        Ok(entry)
    })?;
    Ok((attributes, opened.ok_or(Errno::EIO)?))
}

/// What a create says that failed by `error`. A link or a FIFO may have got the name since it was
/// looked up: it is to be looked up again (`ESTALE`), and followed or opened as it would have been.
#[cold]
fn appeared(
    file_system: &dyn FileSystem,
    parent: Node,
    name: &[u8],
    error: &culvert::Error,
) -> Errno {
    if !matches!(error.errno(), Errno::ELOOP | Errno::ENXIO) {
        return error.errno();
    }
    match file_system.lookup(&culvert_run::task::caller(), parent, name) {
        Ok(entry) => {
            file_system.forget(entry.attributes.node, 1);
            Errno::ESTALE
        }
        // Gone again.
        Err(error) if error.errno() == Errno::ENOENT => Errno::ESTALE,
        Err(_) => error.errno(),
    }
}

/// open(2) with O_TMPFILE (`vfs_tmpfile`, fs/namei.c): a file without a name in the directory that
/// was found, opened; the reference on it is the caller's.
pub fn nameless(found: &Inside<'_>, flags: u32, mode: u32) -> Result<(Attributes, Opened), Errno> {
    let directory = existing(found)?;
    if directory.kind != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let file_system = On::Found(found).to_be_changed()?;
    allowed(file_system, directory, WRITE_AND_SEARCH)?;
    let mode = limits::creation_mode(file_system, mode & 0o7777);
    let made = file_system.tmpfile(
        &culvert_run::task::caller(),
        directory.node,
        to_driver(flags),
        mode,
    );
    made.map(|(entry, opened)| (entry.attributes, opened))
        .map_err(|error| error.errno())
}

/// symlink(2)
pub fn symbolic_link(found: &Inside<'_>, target: &[u8]) -> Result<(), Errno> {
    Making::of(found, false)?.by(|file_system, parent, name| {
        file_system.symlink(&culvert_run::task::caller(), parent, name, target)
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
        let file_system = On::Found(found).to_be_changed()?;
        if !file_system.capabilities().checks_permissions {
            let caller = culvert_run::task::caller();
            let parent = match file_system.known_rights(&caller, found.parent) {
                Some(known) => known,
                None => file_system
                    .attributes(&caller, found.parent)
                    .map_err(|error| error.errno())?,
            };
            allowed(file_system, &parent, WRITE_AND_SEARCH)?;
        }
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
        let attributes = self.keeping(|file_system, parent, name| {
            make(file_system, parent, name).map_err(|error| error.errno())
        })?;
        self.file_system.forget(attributes.node, 1);
        Ok(attributes)
    }

    /// The same, but the reference is the caller's.
    fn keeping(
        &self,
        make: impl FnOnce(&dyn FileSystem, Node, &[u8]) -> Result<Entry, Errno>,
    ) -> Result<Attributes, Errno> {
        let made = watch::made(self.mount, (self.parent, self.name), || {
            make(self.file_system, self.parent, self.name)
        });
        made.map(|entry| entry.attributes)
    }

    /// The same for another name of `node`.
    pub fn link(&self, node: Node) -> Result<(), Errno> {
        let at = (self.parent, self.name);
        let entry = watch::linked(self.mount, node, at, || {
            self.file_system
                .link(&culvert_run::task::caller(), node, self.parent, self.name)
                .map_err(|error| error.errno())
        })?;
        self.file_system.forget(entry.attributes.node, 1);
        Ok(())
    }
}
