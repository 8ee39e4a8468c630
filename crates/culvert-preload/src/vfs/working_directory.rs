//! Changes of the working directory.

use super::backed::Backed;
use super::native::open_restricted;
use super::permission::granted;
use crate::answer::Answer;
use crate::process::{Here, Keeper, Process};
use alloc::vec;
use alloc::vec::Vec;
use culvert::{Attributes, Errno, FileKind};
use culvert_mounts::{MountId, Place};
use culvert_run::ShadowName;
use culvert_sys::fs;

/// Goes to directory `attributes` of `mount`, which `keeper` keeps valid.
pub fn enter(process: &Process, mount: MountId, attributes: &Attributes, keeper: Keeper) -> Answer {
    if attributes.kind != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let file_system = culvert_cache::file_system(mount)?;
    granted(file_system, &culvert_run::task::caller(), attributes, 1)?;
    let stand_in = process.run.working_directory(ShadowName {
        mount,
        node: attributes.node,
    });
    let enter = || fs::chdir(&stand_in);
    if enter().is_err() {
        let _ = culvert_run::make_directory(&process.run.file("cwd"));
        let _ = culvert_run::make_directory(&stand_in);
        enter()?;
    }
    let here = Here::Place(Place::Mount {
        mount,
        node: attributes.node,
    });
    process.set_working_directory(Some((here, keeper)));
    Ok(0)
}

/// Goes to a directory of a backing tree: the kernel's working directory becomes the real one.
/// None: the path must be walked first.
pub fn enter_backed(process: &Process, place: &Backed<'_>) -> Option<Answer> {
    const O_PATH_DIRECTORY: u64 = 0o10200000;
    const RESOLVE_BENEATH: u64 = 8;
    let path = place.path_or_dot();
    let free = place.is_resolved() || place.is_left_to_kernel();
    let resolve = if free { 0 } else { RESOLVE_BENEATH };
    let opened = match open_restricted(place.base, path, O_PATH_DIRECTORY, 0, resolve) {
        Ok(opened) => opened,
        Err(errno @ (Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ENAMETOOLONG)) => {
            return Some(Err(errno));
        }
        Err(errno) if place.is_resolved() => return Some(Err(errno)),
        Err(_) => return None,
    };
    let answer = culvert_sys::fs::fchdir(culvert_sys::BorrowedFd::number(opened.raw()));
    Some(answer.map(|_| {
        process.set_working_directory(Some((Here::Backed(place.mount), Keeper::nothing())));
        INSIDE
    }))
}

/// Tells a change that was made here from one that the kernel made; no system call returns it.
pub const INSIDE: usize = 1 << 62;

/// The path at which the working directory, in the backing tree of `mount`, is seen.
pub fn backed_path(mount: MountId) -> Result<Vec<u8>, Errno> {
    let mut path = vec![0u8; 4096];
    let length = fs::getcwd(&mut path)?;
    path.truncate(length.saturating_sub(1));
    // One that was moved out of the tree is said to be unreachable, as by the kernel for a bind
    // mount.
    Ok(
        crate::backing::seen(mount, &path)
            .unwrap_or_else(|| [b"(unreachable)", &path[..]].concat()),
    )
}
