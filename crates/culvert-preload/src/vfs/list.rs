//! Listing a directory: `.` and `..`, what its driver lists, mount points in it, and who is told.

use super::mount_points::{self, Put};
use crate::description::{Held, Object, report};
use crate::process::Process;
use crate::watch::Event;
use culvert::{Caller, DirectoryEntry, DirectorySink, Errno, FileKind, FileSystem};

/// `.` and `..` come before the driver's entries, whose positions are moved by two.
const OWN_ENTRIES: u64 = 2;

/// The largest offset that lseek(2) takes. The end of a directory of ext4 is exactly there
/// (`EXT4_HTREE_EOF_64BIT`), and nothing lies in the last positions before it.
const LAST_POSITION: u64 = i64::MAX as u64;

/// Gives the entries from the offset of `fd` on to `put`, until that has no more room.
pub fn entries(process: &Process, held: &Held, fd: i32, put: &mut Put<'_>) -> Result<(), Errno> {
    match held.object {
        Object::Directory => {}
        Object::File(_) | Object::Fifo => return Err(Errno::ENOTDIR),
        Object::Path => return Err(Errno::EBADF),
        Object::Broken => return Err(Errno::EIO),
    }
    let file_system = culvert_cache::file_system(held.mount)?;
    held.at_offset(fd, |offset| {
        let listed = all(process, held, file_system, offset, put);
        // Whatever came of it (`iterate_dir`, fs/readdir.c).
        if listed != Err(Errno::ENOENT) {
            held.tell(Event::Access);
        }
        listed
    })?
}

fn all(
    process: &Process,
    held: &Held,
    file_system: &dyn FileSystem,
    offset: &mut u64,
    put: &mut Put<'_>,
) -> Result<(), Errno> {
    while *offset < OWN_ENTRIES {
        let (name, node): (&[u8], _) = match *offset {
            0 => (b".", held.node),
            _ => (b"..", file_system.parent(held.node).unwrap_or(held.node)),
        };
        let found = file_system.attributes(&Caller::SYSTEM, node).ok();
        // A removed directory does not list itself either, however little there is room for.
        if *offset == 0 && found.is_some_and(|found| found.links == 0) {
            names(held, file_system, 0, &mut |_| false)?;
        }
        let inode = found.map_or(node.0, |attributes| attributes.inode);
        let entry = DirectoryEntry {
            inode,
            next: *offset + 1,
            kind: FileKind::Directory,
            name,
        };
        if !put(&entry, offset) {
            return Ok(());
        }
    }
    let mut full = false;
    if !mount_points::is_position(*offset) {
        let from = *offset - OWN_ENTRIES;
        let mut sink = |entry: DirectoryEntry<'_>| {
            let next = (entry.next + OWN_ENTRIES).min(LAST_POSITION);
            full = !put(&DirectoryEntry { next, ..entry }, offset);
            !full
        };
        names(held, file_system, from, &mut sink)?;
    }
    if !full {
        let mounts = mount_points::in_driver(process, held.mount, held.node);
        mount_points::put(process, &mounts, offset, put);
    }
    Ok(())
}

/// What the driver lists behind position `from`.
fn names(
    held: &Held,
    file_system: &dyn FileSystem,
    from: u64,
    sink: &mut DirectorySink<'_>,
) -> Result<(), Errno> {
    let listed = match &held.listing {
        Some(listing) => listing.read(from, sink),
        None => file_system.read_directory(&culvert_run::task::caller(), held.node, from, sink),
    };
    listed.map_err(|error| match report(held, "getdents64", &error) {
        // Removed, and its number given to another (`iterate_dir`, fs/readdir.c).
        Errno::ESTALE => Errno::ENOENT,
        errno => errno,
    })
}
