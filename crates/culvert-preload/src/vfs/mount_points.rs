//! Mount points in listings: a target that is no directory of its own file system's is one more
//! name in the directory that it lies in.
//!
//! They come behind all others, at positions that no file system uses: ext4's positions, the
//! largest that there are, are hashes below 0x7fff_ffff << 32 (`ext4fs_dirhash`), and its end is
//! the largest number that lseek(2) takes.

use super::backed::native_place;
use super::native::{AT_SYMLINK_NOFOLLOW, stat_at};
use super::targets::parent_of;
use crate::process::Process;
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::{Caller, DirectoryEntry, Errno, FileKind, Node};
use culvert_mounts::MountId;
use culvert_run::{files::c_string, memory::Path};

/// The position of the first.
const FIRST: u64 = 0x7fff_ffff_ffff_ff00;

/// There are no more in one directory.
const MOST: usize = 0xf0;

/// Whether `offset` is a position among or behind mount points.
pub fn is_position(offset: u64) -> bool {
    (FIRST..=FIRST + MOST as u64).contains(&offset)
}

/// Those in directory `node` of `mount`, a driver's.
pub fn in_driver(process: &Process, mount: MountId, node: Node) -> Vec<MountId> {
    match process.targets_missing {
        true => process.mounts.without_directory(mount, node),
        false => Vec::new(),
    }
}

/// Those in the kernel's directory behind `fd`.
pub fn in_kernel(process: &Process, fd: i32) -> Vec<MountId> {
    let Ok(found) = culvert_run::stat_descriptor(fd) else {
        return Vec::new();
    };
    let seen_in = process.table.backed(fd);
    let lies_there = |mount: &MountId| {
        // A directory of a tree's source is not one of the mount, if it was not opened there.
        let parent = process.mounts.parent(*mount);
        let is_bound = |parent: MountId| {
            let specification = process.specifications.get(usize::from(parent.0));
            specification.is_some_and(culvert_drivers::binding::is_bound)
        };
        if parent != seen_in && !(seen_in.is_none() && parent.is_some_and(is_bound)) {
            return false;
        }
        // By the name in that directory: the target's own path leads into the mount.
        let above = parent_of(process.mounts.target(*mount));
        let (base, above) =
            native_place(process, above.to_bytes().strip_suffix(b"/").unwrap_or(b"/"));
        let there = |path: &CStr, flags| stat_at(base, Path::of(path), flags);
        let name = process.mounts.name(*mount);
        let named = c_string([above.to_bytes(), b"/", name].concat());
        there(&above, 0)
            .is_ok_and(|above| (above.st_dev, above.st_ino) == (found.st_dev, found.st_ino))
            && there(&named, AT_SYMLINK_NOFOLLOW).is_err_and(|errno| errno == Errno::ENOENT)
    };
    process
        .mounts
        .in_kernel_directories()
        .filter(lies_there)
        .collect()
}

/// Takes an entry, and puts its position into the number; whether there was room.
pub type Put<'a> = dyn FnMut(&DirectoryEntry<'_>, &mut u64) -> bool + 'a;

/// Gives what is left of `mounts` at `offset` to `put`.
pub fn put(process: &Process, mounts: &[MountId], offset: &mut u64, put: &mut Put<'_>) {
    let done = offset.checked_sub(FIRST).filter(|_| is_position(*offset));
    let done = done.unwrap_or(0) as usize;
    for (number, &mount) in mounts.iter().enumerate().take(MOST).skip(done) {
        let root = culvert_cache::file_system(mount).and_then(|driver| {
            driver
                .attributes(&Caller::SYSTEM, driver.root())
                .map_err(|error| error.errno())
        });
        let entry = DirectoryEntry {
            // Natively what lies under a mount point has a number, which is not that of the mount's
            // root either.
            inode: root.map_or(1, |root| root.inode),
            next: FIRST + number as u64 + 1,
            kind: FileKind::Directory,
            name: process.mounts.name(mount),
        };
        if !put(&entry, offset) {
            return;
        }
    }
}
