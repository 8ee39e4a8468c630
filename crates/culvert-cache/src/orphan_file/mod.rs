//! Files that have no name any more and go to another program, of drivers whose nodes a process
//! finds by their names ([`culvert::Capabilities::transient_nodes`]).
//!
//! The driver's file cannot go with them. So before exec, before a descriptor is sent, and when the
//! last name of a file goes that others hold, its shadow gets all that the file is, and *is* the
//! file from then on, for everybody who holds it: a bit of its mode says so. Bytes, size and times
//! are the shadow's own; owner, mode and number stand beside it. Who gets a descriptor of it has a
//! direct description on the shadow.
//!
//! Who opened the file by its driver finds that out by a count in shared memory ([`count`],
//! `Description::orphan`). What it opened before the file was counted and has had open since keeps
//! the inode, so that no other file can have its number: it is this file. What was opened later is
//! another one, which has no way to this shadow: it loses its usual name.

mod file;
pub(crate) mod record;

pub use crate::state::is_orphan;
use culvert_run::task;
use culvert_sys::raw::general::{O_RDWR, O_TRUNC};
pub use file::OrphanFile;
pub(crate) use file::{Xattrs, hand_over_xattrs, xattrs_of};

use crate::{State, shadow};
use alloc::boxed::Box;
use core::sync::atomic::Ordering::*;
use culvert::{Attributes, Caller, Errno, File, Opened, Result, SetAttributes};
use culvert_mounts::MountId;
use culvert_run::{self as run, node_locks::Mapped};
use culvert_run::{ShadowName, stat_descriptor};
use culvert_sys::raw::general::stat;
use record::{InodeRecord, all, open_record, path_of, since};

/// The bits of [`Mapped::followed`] that count such shadows begin here.
pub(crate) const COUNT: u32 = 1;

/// Whose shadow it is.
pub fn name_of(found: &stat) -> Option<ShadowName> {
    let record = open_record(found.st_ino, 0).ok()?;
    InodeRecord::read(&record).ok().map(|kept| kept.name)
}

/// How many shadows of the node's group have become files.
#[inline]
pub fn count(name: ShadowName) -> u32 {
    group(name).map_or(0, |group| group.followed.load(Acquire) >> COUNT)
}

pub(crate) fn group(name: ShadowName) -> Option<Mapped> {
    run::get().node_locks.mapped(name)
}

/// What the file of `name`, which was opened by its driver, has become since [`count`] was
/// `seen`, if anything. An error: that is not known.
#[cold]
pub fn find(name: ShadowName, seen: u32) -> core::result::Result<Option<Box<OrphanFile>>, Errno> {
    // What is opened here would be open in the child's table only, or end the program.
    if task::vfork_child().is_some() || task::is_confined() {
        return Err(Errno::EAGAIN);
    }
    let Some(inode) = since(name, seen)? else {
        return Ok(None);
    };
    let opened = shadow::open_path(name, &path_of(inode), O_RDWR)?;
    let found = stat_descriptor(opened.raw())?;
    if State::of(&found) != State::Orphan {
        run::get().posix_locks.close(name, opened);
        return Ok(None);
    }
    Ok(Some(Box::new(OrphanFile::new(name, opened, &found))))
}

/// The file without a name that has the attributes `wanted`, opened anew with the access mode of
/// `flags`; none where it is the driver's.
pub fn open(mount: MountId, wanted: &Attributes, flags: u32) -> Result<Option<Opened>> {
    let name = ShadowName {
        mount,
        node: wanted.node,
    };
    if count(name) == 0 {
        return Ok(None);
    }
    for inode in all()? {
        let file = match open_one(name, inode, flags) {
            Ok(Some(file)) if file.attributes(&Caller::SYSTEM)? == *wanted => file,
            // Another one, or nobody's any more, which is removed just now.
            Ok(_) | Err(Errno::ENOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        if flags & O_TRUNC != 0 {
            let empty = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            file.set_attributes(&Caller::SYSTEM, &empty)?;
        }
        return Ok(Some(Opened::Driven(Box::new(file))));
    }
    Ok(None)
}

/// The file of `name` that the shadow with the inode number `inode` is, if it is one of that name.
fn open_one(
    name: ShadowName,
    inode: u64,
    flags: u32,
) -> core::result::Result<Option<OrphanFile>, Errno> {
    if InodeRecord::read(&open_record(inode, 0)?)?.name != name {
        return Ok(None);
    }
    let opened = shadow::open_path(name, &path_of(inode), flags & 3)?;
    let found = stat_descriptor(opened.raw())?;
    Ok(Some(OrphanFile::new(name, opened, &found)))
}

/// The file that the shadow of `name`, with this `struct stat`, is itself: `fd` is a descriptor of
/// the shadow.
pub fn file_of(name: ShadowName, found: &stat, fd: i32) -> Result<Box<OrphanFile>> {
    if run::internal::keeper().lends(fd) {
        return Ok(Box::new(OrphanFile::lent(name, fd, found)));
    }
    let opened = shadow::open_path(name, &path_of(found.st_ino), O_RDWR)?;
    Ok(Box::new(OrphanFile::new(name, opened, found)))
}
