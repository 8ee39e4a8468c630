//! FIFOs of mounts. One of the run's own stands for each, the same for all its processes: its bytes
//! are the kernel's. What it *is*, mode, owner, times and number, the driver knows: its descriptors
//! are of descriptions that are always direct ([`Object::Fifo`](crate::description::Object)).

use super::permission::permits;
use crate::answer::Answer;
use crate::description::Description;
use crate::descriptors::fifos::PATH;
use crate::process::Process;
use alloc::ffi::CString;
use alloc::sync::Arc;
use core::ffi::CStr;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::*;
use culvert::{Attributes, Errno, FileKind, Node};
use culvert_intercept::wait;
use culvert_mounts::{Hold, MountId, resolver::Inside};
use culvert_run::{ShadowName, files::c_string, read_link, stat_descriptor};
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::raw::general::RESOLVE_NO_SYMLINKS;
use culvert_sys::raw::general::open_how;
use culvert_sys::raw::general::{
    AT_FDCWD, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH, O_TRUNC, S_IFIFO, stat,
};
use culvert_sys::sync::AtomicRef;
use culvert_sys::{BorrowedFd, fs};

/// Of all processes' numbers for a FIFO the one that is the same.
fn name_of(mount: MountId, inode: u64) -> ShadowName {
    ShadowName {
        mount,
        node: Node(inode),
    }
}

/// Where the descriptor of the folder stands, of a process that may be another user by now; none:
/// it goes by its path.
static FOLDER_OPEN: AtomicRef<AtomicI32> = AtomicRef::new();

/// The stand-in of `name`, as calls with a directory take it: descriptor, and path.
fn stand_in(process: &Process, name: ShadowName) -> (i32, CString) {
    let path = process.run.fifo(name);
    match FOLDER_OPEN.get() {
        Some(place) => {
            let path = path.as_c_str();
            let slash = path.to_bytes().iter().rposition(|&b| b == b'/');
            (
                place.load(Relaxed),
                path[slash.map_or(0, |at| at + 1)..].into(),
            )
        }
        None => (AT_FDCWD, path),
    }
}

/// The link whose text is the path of the FIFO of `name` below its mount's root, as [`stand_in`].
fn path_link(process: &Process, name: ShadowName) -> (i32, CString) {
    let (directory, fifo) = stand_in(process, name);
    (directory, c_string([fifo.to_bytes(), PATH].concat()))
}

/// This process may become another user, who cannot enter the run directory: what he needs of it
/// for FIFOs is open from here on.
///
/// He may make what is not there yet, so the folder is like /tmp to who has its descriptor; the
/// kernel judges by the stand-ins' own modes and owners.
pub fn prepare(process: &Process) {
    let is_root = culvert_sys::process::geteuid() as isize == 0;
    let known = FOLDER_OPEN.is_some();
    if known || !is_root || culvert_run::task::vfork_child().is_some() || process.mounts.is_empty()
    {
        return;
    }
    let folder = process.run.file("fifos");
    let _ = culvert_run::make_directory(&folder);
    let Ok(opened) = culvert_run::files::open(&folder, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0) else {
        return;
    };
    let _ = fs::chmod(&folder, 0o1777);
    match process.run.adopt_internal(opened.raw()) {
        // Moved, and closed where it was.
        Some(place) => {
            opened.into_raw();
            FOLDER_OPEN.set(Some(place));
        }
        None => drop(opened),
    }
}

/// Makes the stand-in at `path` below `directory`, if there is none, and gives it the owner and the
/// mode of what it stands for. To root it says which one that is, by device and inode.
fn make(directory: i32, path: &CStr, attributes: &Attributes) -> Result<Option<(u64, u64)>, Errno> {
    let caller = culvert_run::task::caller();
    let bits = attributes.permissions & 0o777;
    let mode = match FOLDER_OPEN.is_some() {
        _ if caller.uid == 0 || caller.uid == attributes.uid => bits,
        // Nobody else can come here.
        false => 0o600,
        // Whose it will be is not whose the FIFO is: the owner may what he may by the FIFO's mode,
        // all others what strangers may.
        true => {
            let own = [4, 2]
                .into_iter()
                .filter(|&it| permits(&caller, attributes, it));
            own.sum::<u32>() << 6 | (bits & 7) << 3 | bits & 7
        }
    };
    let base = BorrowedFd::number(directory);
    let made = fs::mknodat(base, path, S_IFIFO | 0o600, 0).is_ok();
    if caller.uid != 0 {
        if made && mode != 0o600 {
            let _ = fs::fchmodat2(base, path, mode, AtFlags::SYMLINK_NOFOLLOW);
        }
        return Ok(None);
    }
    // What is there is held, since who has made it may put something else in its place.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let there = fs::openat(base, path, flags, 0)?;
    let found = stat_descriptor(there.raw())?;
    if !made && !may_stand_in(&found, attributes) {
        return Err(Errno::EIO);
    }
    let (uid, gid) = (attributes.uid, attributes.gid);
    let _ = fs::fchownat(&there, c"", uid, gid, AtFlags::EMPTY_PATH);
    let _ = fs::fchmodat2(&there, c"", mode, AtFlags::EMPTY_PATH);
    Ok(Some((found.st_dev, found.st_ino)))
}

/// Whether root may use what somebody has put there, and give it to the owner of the FIFO that it
/// stands for: a FIFO with no other name, of root's, of that owner's, or of one who may have opened
/// it himself. Anybody else would read what is written to a FIFO that is closed to him.
fn may_stand_in(found: &stat, attributes: &Attributes) -> bool {
    const GROUP_OR_OTHERS: u32 = 0o066;
    FileKind::of_mode(found.st_mode) == Some(FileKind::Fifo)
        && found.st_nlink == 1
        && (found.st_uid == 0
            || found.st_uid == attributes.uid
            || attributes.permissions & GROUP_OR_OTHERS != 0)
}

/// open(2) of a FIFO. Waits for the other end, unless a signal comes first.
pub fn open(
    process: &Process,
    found: &mut Inside<'_>,
    attributes: &Attributes,
    flags: u32,
) -> Answer {
    let name = name_of(found.mount, attributes.inode);
    let (directory, path) = stand_in(process, name);
    // Its number must not become another one's while the other end is waited for.
    let _hold = Hold::of(process.mounts, found.mount, attributes.node);
    if directory == AT_FDCWD {
        let _ = culvert_run::make_directory(&process.run.file("fifos"));
    }
    let made = make(directory, &path, attributes)?;
    // Another user may have put something else there.
    let how = open_how {
        flags: u64::from(flags & !(O_CREAT | O_EXCL | O_TRUNC)),
        mode: 0,
        resolve: u64::from(RESOLVE_NO_SYMLINKS),
    };
    let opened =
        wait::open_how(BorrowedFd::number(directory), &path, &how).map_err(
            |errno| match errno {
                Errno::ELOOP => Errno::EIO,
                errno => errno,
            },
        )?;
    let now = stat_descriptor(opened.raw())?;
    let other = made.is_some_and(|made| made != (now.st_dev, now.st_ino));
    if FileKind::of_mode(now.st_mode) != Some(FileKind::Fifo) || other {
        return Err(Errno::EIO);
    }
    let fd = opened.into_raw();
    note(process, name, attributes.node);
    let fd = process.table.opened_by_kernel(fd, flags & O_CLOEXEC != 0);
    let mut description = Description::fifo(found.mount, attributes.node, flags, true);
    let itself = found
        .references
        .take(process.mounts, found.mount, attributes.node);
    description.references.join(itself);
    process.table.install(fd, Arc::new(description));
    Ok(fd as usize)
}

/// Notes where `node` is, for processes that get a descriptor of it. What has no path any more is a
/// FIFO of the run's to them.
fn note(process: &Process, name: ShadowName, node: Node) {
    let (directory, link) = path_link(process, name);
    let path = culvert_cache::file_system(name.mount)
        .ok()
        .and_then(|file_system| file_system.path_of(node).ok());
    let Some(path) = path else {
        return;
    };
    if directory == AT_FDCWD && read_link(&link).is_ok_and(|noted| noted == path) {
        return;
    }
    let base = BorrowedFd::number(directory);
    // Without the link the bytes are right all the same.
    let _ = fs::unlinkat(base, &link, AtFlags::empty());
    let _ = fs::symlinkat(&c_string(path), base, &link);
}
