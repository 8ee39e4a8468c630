//! Making names: who may, and who is told. The order of errors is the kernel's (`filename_create`,
//! fs/namei.c), a read-only mount's EROFS in its place among them.

use super::permission::allowed;
use crate::answer::Answer;
use crate::resolver::{Inside, Last, MountId};
use crate::{process, watch};
use culvert::{Errno, FileSystem, Node};

/// A name that may be made.
pub struct Making<'a> {
    mount: MountId,
    /// Where.
    pub file_system: &'static dyn FileSystem,
    /// In which directory.
    pub parent: Node,
    /// The name.
    pub name: &'a [u8],
}

impl Making<'_> {
    /// What a call answers that makes the name by `make`: the reference on what is new goes back.
    pub fn by(&self, make: impl FnOnce(&Self) -> culvert::Result<culvert::Entry>) -> Answer {
        let entry = watch::made(self.mount, (self.parent, self.name), || {
            make(self).map_err(|error| error.errno())
        })?;
        self.file_system.forget(entry.attributes.node, 1);
        Ok(0)
    }

    /// The same for another name of `node`.
    pub fn link(&self, node: Node) -> Answer {
        let at = (self.parent, self.name);
        let entry = watch::linked(self.mount, node, at, || {
            self.file_system
                .link(&process::caller(), node, self.parent, self.name)
                .map_err(|error| error.errno())
        })?;
        self.file_system.forget(entry.attributes.node, 1);
        Ok(0)
    }
}

/// What creating calls check before they create (`filename_create`).
pub fn make<'a>(found: &'a Inside<'_>, directory: bool) -> Result<Making<'a>, Errno> {
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
    Ok(Making {
        mount: found.mount,
        file_system,
        parent: found.parent,
        name,
    })
}

/// The mode that something new gets of `mode`: of its bits those `allowed`, and what umask leaves.
pub fn masked(file_system: &dyn FileSystem, mode: usize, allowed: u32) -> u32 {
    process::limits::creation_mode(file_system, mode as u32 & allowed)
}
