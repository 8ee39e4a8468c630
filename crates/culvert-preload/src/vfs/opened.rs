//! The descriptors of what was opened in a mount.

use crate::answer::Answer;
use crate::description::{Description, Object};
use crate::process::Process;
use alloc::boxed::Box;
use culvert::{Attributes, Caller, Directory, Errno, FileKind, OpenFlags, Opened, OpenedDirectory};
use culvert_mounts::resolver::{Inside, Last};
use culvert_sys::fd::{self, Command};
use culvert_sys::raw::general::O_PATH;
use culvert_sys::raw::general::{O_CLOEXEC, O_CREAT, O_DIRECT, O_EXCL, O_TMPFILE, O_TRUNC};

/// What a driver is told of the flags: O_DIRECT asks for aligned buffers, which its own are not.
/// The descriptor of a backed file becomes the program's, in [`add`].
pub(super) fn to_driver(flags: u32) -> OpenFlags {
    OpenFlags(flags & !O_DIRECT).with(OpenFlags::LENDS)
}

/// [`give`] for what a call has just made: its entry is one more reference.
pub fn give_new(
    process: &Process,
    found: &mut Inside<'_>,
    attributes: Attributes,
    opened: Opened,
    flags: u32,
) -> Answer {
    found.references.push(found.mount, attributes.node);
    // What has no name was not looked up, and so not created (`lookup_open`, fs/namei.c).
    let created = flags & O_TMPFILE != O_TMPFILE;
    give(process, found, attributes, opened, flags, created)
}

/// A descriptor for what the driver has opened; `created`: for this call.
pub fn give(
    process: &Process,
    found: &mut Inside<'_>,
    attributes: Attributes,
    opened: Opened,
    flags: u32,
    created: bool,
) -> Answer {
    match opened {
        Opened::Driven(file) => {
            let extra = Extra {
                created,
                ..Extra::default()
            };
            add(process, found, attributes, Object::File(file), flags, extra)
        }
        Opened::Backed(fd) => {
            // The descriptor itself: to close another of this file would drop the record locks that
            // the program holds on it (fcntl(2)).
            let close_on_exec = flags & O_CLOEXEC != 0;
            fd::fcntl(&fd, Command::SETFD, usize::from(close_on_exec))?;
            let table = &process.table;
            Ok(table.opened_by_kernel(fd.into_raw(), close_on_exec) as usize)
        }
    }
}

/// What else is known of what was opened.
#[derive(Default)]
pub struct Extra {
    /// The call has made it.
    created: bool,
    /// What the driver keeps for the open of a directory.
    listing: Option<Box<dyn Directory>>,
}

/// A descriptor for a directory, which its driver opens, too.
pub fn add_directory(
    process: &Process,
    found: &mut Inside<'_>,
    attributes: Attributes,
    caller: &Caller<'_>,
    flags: u32,
) -> Answer {
    let file_system = culvert_cache::file_system(found.mount)?;
    let opened = file_system.open_directory(caller, attributes.node, OpenFlags(flags));
    let listing = match opened.map_err(|error| error.errno())? {
        OpenedDirectory::Driven(listing) => Some(listing),
        // Its listing is the driver's by node: names of mounts are to be seen in it, and `..` is.
        OpenedDirectory::Backed(_) => None,
        OpenedDirectory::Stateless => None,
    };
    let extra = Extra {
        listing,
        ..Extra::default()
    };
    add(process, found, attributes, Object::Directory, flags, extra)
}

/// A descriptor for something in a mount.
pub fn add(
    process: &Process,
    found: &mut Inside<'_>,
    attributes: Attributes,
    object: Object,
    flags: u32,
    extra: Extra,
) -> Answer {
    let keep = flags & !(O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | 0o400);
    // F_GETFL shows O_LARGEFILE on x86-64 for every open but O_PATH.
    let large = if flags & O_PATH != 0 { 0 } else { 0o100000 };
    // Its attributes may be asked for next.
    culvert_cache::strangers::bring_all();
    let mut description = Description::new(
        found.mount,
        attributes.node,
        attributes.kind,
        object,
        keep | large,
    );
    if description.is_gone() && matches!(found.last, Last::Name(_)) {
        // It is looked for again.
        return Err(Errno::ESTALE);
    }
    description.created = extra.created;
    description.listing = extra.listing;
    let mounts = &process.mounts;
    let itself = found.references.take(mounts, found.mount, attributes.node);
    description.references.join(itself);
    if attributes.links > 1
        && attributes.kind != FileKind::Directory
        && let Last::Name(name) = &found.last
    {
        *description.opened_as.lock() = Some((found.parent, name.as_ref().into()));
        let parent = found.references.take(mounts, found.mount, found.parent);
        description.references.join(parent);
    }
    let at = match &found.last {
        Last::Name(name) if flags & O_TMPFILE != O_TMPFILE => Some((found.parent, name.as_ref())),
        _ => None,
    };
    description.tell_opened(at, flags, flags & O_TRUNC != 0);
    process
        .table
        .add(description, 0, flags & O_CLOEXEC != 0)
        .map(|fd| fd as usize)
}
