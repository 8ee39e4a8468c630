//! Opening something in a mount: the order of checks and effects.

use super::create;
use super::opened::{Extra, add, add_directory, give, give_new, to_driver};
use super::permission::{allowed, granted};
use crate::answer::Answer;
use crate::description::Object;
use crate::process::Process;
use culvert::{Attributes, Caller, Errno, FileKind};
use culvert_cache::change;
use culvert_mounts::resolver::{Inside, Last};
use culvert_run::ShadowName;
use culvert_sys::raw::general::O_PATH;
use culvert_sys::raw::general::{O_ACCMODE, O_DIRECT, O_DIRECTORY, O_NOATIME};
pub(super) use culvert_sys::raw::general::{O_CREAT, O_EXCL, O_TMPFILE, O_TRUNC};

/// Opens something in a mount (`do_open`, `may_open`, `lookup_open` of fs/namei.c, in their order
/// of errors).
pub fn open_inside(process: &Process, mut found: Inside<'_>, flags: u32, mode: u32) -> Answer {
    let file_system = culvert_cache::file_system(found.mount)?;
    let read_only = file_system.capabilities().read_only;
    let caller = culvert_run::task::caller();
    if flags & O_TMPFILE == O_TMPFILE && flags & O_PATH == 0 {
        let (attributes, opened) = create::nameless(&found, flags, mode)?;
        return give_new(process, &mut found, attributes, opened, flags);
    }
    let Some(entry) = found.entry else {
        let (attributes, opened) = create::file(&found, flags, mode)?;
        return give_new(process, &mut found, attributes, opened, flags & !O_TRUNC);
    };
    let attributes = entry.attributes;
    if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL {
        return Err(Errno::EEXIST);
    }
    if flags & O_CREAT != 0 && attributes.kind == FileKind::Directory {
        return Err(Errno::EISDIR);
    }
    if flags & O_PATH != 0 {
        if flags & O_DIRECTORY != 0 && attributes.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        let extra = Extra::default();
        return add(process, &mut found, attributes, Object::Path, flags, extra);
    }
    if flags & O_DIRECTORY != 0 && attributes.kind != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let access = flags & O_ACCMODE;
    let wanted = match access {
        0 => 4,
        1 => 2,
        _ => 6,
    } | if flags & O_TRUNC != 0 { 2 } else { 0 };
    match attributes.kind {
        FileKind::Symlink => return Err(Errno::ELOOP),
        FileKind::Directory if wanted & 2 != 0 => return Err(Errno::EISDIR),
        FileKind::Regular | FileKind::Directory if wanted & 2 != 0 && read_only => {
            return Err(Errno::EROFS);
        }
        _ => {}
    }
    // The driver opens regular files itself, and may look at more than mode bits.
    match attributes.kind {
        FileKind::Regular => allowed(file_system, &attributes, wanted)?,
        _ => granted(file_system, &caller, &attributes, wanted)?,
    }
    if flags & O_NOATIME != 0 && !caller.is_owner(attributes.uid) {
        return Err(Errno::EPERM);
    }
    match attributes.kind {
        FileKind::Directory if flags & O_DIRECT != 0 => Err(Errno::EINVAL),
        FileKind::Directory => add_directory(process, &mut found, attributes, &caller, flags),
        FileKind::Regular => open_file(process, found, &caller, attributes, flags, wanted & 2 != 0),
        // No device driver, no pipe behind a name in an archive (`nodev`).
        FileKind::Fifo => super::fifos::open(process, &mut found, &attributes, flags),
        FileKind::Socket => Err(Errno::ENXIO),
        // A whiteout, which anybody may make: no device has the number 0 (`chrdev_open`).
        FileKind::CharacterDevice if attributes.rdev == 0 => Err(Errno::ENXIO),
        FileKind::CharacterDevice | FileKind::BlockDevice => Err(Errno::EACCES),
        FileKind::Symlink => Err(Errno::ELOOP),
    }
}

/// The regular file with these `attributes`; `writes`: to be changed, or emptied, by who opens it.
fn open_file(
    process: &Process,
    mut found: Inside<'_>,
    caller: &Caller<'_>,
    attributes: Attributes,
    flags: u32,
    writes: bool,
) -> Answer {
    let file_system = culvert_cache::file_system(found.mount)?;
    // As on tmpfs (since Linux 6.6), which has no cache to go around either. What cannot be changed
    // is decompressed: there it means nothing.
    if flags & O_DIRECT != 0 && file_system.capabilities().immutable {
        return Err(Errno::EINVAL);
    }
    let (mount, node) = (found.mount, attributes.node);
    let name = ShadowName { mount, node };
    if writes {
        super::busy::may_write(process, name)?;
    }
    let open = || {
        let orphan = match found.last == Last::Magic && attributes.links == 0 {
            true => culvert_cache::orphan_file::open(mount, &attributes, flags),
            false => Ok(None),
        };
        let opened = orphan.and_then(|orphan| match orphan {
            Some(orphan) => Ok(orphan),
            None => file_system.open(caller, node, to_driver(flags)),
        });
        opened.map_err(|error| {
            if let Some(cause) = error.cause() {
                culvert_sys::log!(
                    "a file on {} (inode {}) cannot be opened: {cause}",
                    process.mounts.shown_name(mount),
                    node.0
                );
            }
            error.errno()
        })
    };
    let opened = match flags & O_TRUNC {
        0 => open(),
        _ => change::resizing(name, || Ok((open()?, 0))),
    }?;
    culvert_cache::recover_node(name);
    give(process, &mut found, attributes, opened, flags, false)
}
