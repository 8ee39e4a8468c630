//! FIFOs of mounts. One of the run's own stands for each, the same for all its processes: its bytes
//! are the kernel's. What it *is*, mode, owner, times and number, the driver knows: its descriptors
//! are of descriptions that are always direct ([`Object::Fifo`](crate::description::Object)).

use super::permission::permits;
use crate::answer::{Answer, RESTART};
use crate::description::Description;
use crate::descriptors::fifos::PATH;
use crate::process::Process;
use crate::resolver::{Hold, Inside, MountId};
use crate::run::{ShadowName, read_link, stat_descriptor};
use crate::{process, shadow};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::*;
use core::sync::atomic::{AtomicI32, AtomicPtr};
use culvert::{Attributes, Errno, FileKind, Node};
use culvert_sys::OwnedFd;
use culvert_sys::raw::general::{AT_FDCWD, O_CLOEXEC, O_CREAT, O_EXCL, O_TRUNC, stat};
use culvert_sys::{nr, syscall};

/// Of all processes' numbers for a FIFO the one that is the same.
fn name_of(mount: MountId, inode: u64) -> ShadowName {
    ShadowName {
        mount: mount.0,
        node: Node(inode),
    }
}

/// Where the descriptor of the folder stands, of a process that may be another user by now; null:
/// it goes by its path.
static FOLDER_OPEN: AtomicPtr<AtomicI32> = AtomicPtr::new(core::ptr::null_mut());

/// The stand-in of `name`, as calls with a directory take it: descriptor, and path, NUL-terminated.
fn stand_in(process: &Process, name: ShadowName) -> (i32, Vec<u8>) {
    let path = process.run.fifo(name);
    // SAFETY: null, or a place that stays.
    match unsafe { FOLDER_OPEN.load(Acquire).as_ref() } {
        Some(place) => {
            let start = path.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
            (place.load(Relaxed), path[start..].to_vec())
        }
        None => (AT_FDCWD, path),
    }
}

/// The link whose text is the path of the FIFO of `name` below its mount's root, as [`stand_in`].
fn path_link(process: &Process, name: ShadowName) -> (i32, Vec<u8>) {
    let (directory, fifo) = stand_in(process, name);
    (directory, [&fifo[..fifo.len() - 1], PATH].concat())
}

/// This process may become another user, who cannot enter the run directory: what he needs of it
/// for FIFOs is open from here on.
///
/// He may make what is not there yet, so the folder is like /tmp to who has its descriptor; the
/// kernel judges by the stand-ins' own modes and owners.
pub fn prepare(process: &Process) {
    let is_root = culvert_sys::process::geteuid() as isize == 0;
    let known = !FOLDER_OPEN.load(Acquire).is_null();
    if known || !is_root || process::vfork_child().is_some() || process.mounts.is_empty() {
        return;
    }
    let folder = process.run.file("fifos");
    let _ = crate::run::make_directory(&folder);
    const O_PATH_DIRECTORY_NOFOLLOW: usize = 0o10000000 | 0o200000 | 0o400000;
    let Ok(opened) = shadow::open(&folder, O_PATH_DIRECTORY_NOFOLLOW, 0) else {
        return;
    };
    // SAFETY: the path ends in NUL, and is that of a directory of ours.
    let _ = unsafe { syscall::call(nr::CHMOD, [folder.as_ptr() as usize, 0o1777]) };
    match process.run.adopt_internal(opened.raw()) {
        // Moved, and closed where it was.
        Some(place) => {
            opened.into_raw();
            FOLDER_OPEN.store(core::ptr::from_ref(place).cast_mut(), Release);
        }
        None => drop(opened),
    }
}

/// Makes the stand-in at `path` below `directory`, if there is none, and gives it the owner and the
/// mode of what it stands for. To root it says which one that is, by device and inode.
fn make(directory: i32, path: &[u8], attributes: &Attributes) -> Result<Option<(u64, u64)>, Errno> {
    const NOFOLLOW: usize = 0x100; // AT_SYMLINK_NOFOLLOW
    const AT_EMPTY_PATH: usize = 0x1000;
    const O_PATH_NOFOLLOW: usize = 0o12400000; // and O_CLOEXEC
    let caller = process::caller();
    let (uid, gid) = (attributes.uid as usize, attributes.gid as usize);
    let bits = attributes.permissions & 0o777;
    let mode = match FOLDER_OPEN.load(Acquire).is_null() {
        _ if caller.uid == 0 || caller.uid == attributes.uid => bits,
        // Nobody else can come here.
        true => 0o600,
        // Whose it will be is not whose the FIFO is: the owner may what he may by the FIFO's mode,
        // all others what strangers may.
        false => {
            let own = [4, 2]
                .into_iter()
                .filter(|&it| permits(&caller, attributes, it));
            own.sum::<u32>() << 6 | (bits & 7) << 3 | bits & 7
        }
    } as usize;
    let (base, name) = (directory as usize, path.as_ptr() as usize);
    // SAFETY: the path ends in NUL; what exists already is looked at.
    let made = unsafe { syscall::call(nr::MKNODAT, [base, name, 0o010600, 0]) }.is_ok();
    if caller.uid != 0 {
        if made && mode != 0o600 {
            // SAFETY: as above.
            let _ = unsafe { syscall::call(nr::FCHMODAT2, [base, name, mode, NOFOLLOW]) };
        }
        return Ok(None);
    }
    // What is there is held, since who has made it may put something else in its place.
    let at = [base, name, O_PATH_NOFOLLOW];
    // SAFETY: as above.
    let there = unsafe { syscall::call(nr::OPENAT, at) }.map(|fd| OwnedFd::from_raw(fd as i32))?;
    let found = stat_descriptor(there.raw())?;
    if !made && !may_stand_in(&found, attributes) {
        return Err(Errno::EIO);
    }
    let (it, empty) = (there.raw() as usize, c"".as_ptr() as usize);
    // SAFETY: the path ends in NUL.
    unsafe {
        let _ = syscall::call(nr::FCHOWNAT, [it, empty, uid, gid, AT_EMPTY_PATH]);
        let _ = syscall::call(nr::FCHMODAT2, [it, empty, mode, AT_EMPTY_PATH]);
    }
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
        let _ = crate::run::make_directory(&process.run.file("fifos"));
    }
    let made = make(directory, &path, attributes)?;
    // Another user may have put something else there.
    const RESOLVE_NO_SYMLINKS: u64 = 4;
    let how = [
        u64::from(flags & !(O_CREAT | O_EXCL | O_TRUNC)),
        0,
        RESOLVE_NO_SYMLINKS,
    ];
    let (base, how) = (directory as usize, how.as_ptr() as usize);
    let arguments = [base, path.as_ptr() as usize, how, 24, 0, 0];
    // SAFETY: the path ends in NUL; `how` is a `struct open_how` of the length given.
    let opened = unsafe { culvert_intercept::wait::interruptible(nr::OPENAT2, arguments) };
    let opened = Errno::check(opened.map_err(|_| RESTART)?).map_err(|errno| match errno {
        Errno::ELOOP => Errno::EIO,
        errno => errno,
    })?;
    let opened = OwnedFd::from_raw(opened as i32);
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
    let path = process::file_system(MountId(name.mount))
        .ok()
        .and_then(|file_system| file_system.path_of(node).ok());
    let Some(mut path) = path else {
        return;
    };
    if directory == AT_FDCWD && read_link(&link).is_ok_and(|noted| noted == path) {
        return;
    }
    path.push(0);
    // SAFETY: both strings end in NUL. Without the link the bytes are right all the same.
    unsafe {
        let (base, name) = (directory as usize, link.as_ptr() as usize);
        let _ = syscall::call(nr::UNLINKAT, [base, name, 0]);
        let _ = syscall::call(nr::SYMLINKAT, [path.as_ptr() as usize, base, name]);
    }
}
