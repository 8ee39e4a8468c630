//! Nodes that go to the next program by descriptors of what they are, for it would not find them by
//! their paths (`descriptors/node_paths.rs`): directories that were removed, and what lies where it
//! may not be searched any more.
//!
//! The variable names the descriptors, which are hidden there as all of Culvert's are. They are
//! closed once the node is known, or at the next exec, which gets those that were not looked for.

use super::{close_on_exec, dup_high, node_is_found};
use crate::description::{Description, Object};
use crate::run::{self, ShadowName, stat_descriptor};
use crate::shadow::OwnedFd;
use crate::task;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::*;
use culvert::{FileKind, FileSystem};
use culvert_intercept::descriptors as classes;
use culvert_sys::sync::Mutex;
use culvert_sys::{nr, syscall};

/// More than this are not handed down.
const MOST: usize = 64;

/// What this program was given and has not looked for.
static GIVEN: Mutex<Vec<(u16, &'static AtomicI32)>> = Mutex::new(Vec::new());

/// Descriptors for the next program, each with the mount that it is for (two mounts of one source
/// may have the same node); they survive exec, and are closed where that fails.
pub fn hand_down() -> Vec<(u16, OwnedFd)> {
    let mut inherited: Vec<Arc<Description>> = Vec::new();
    super::table().each(|fd, description| {
        if may_be_lost(description) && !close_on_exec(fd).unwrap_or(true) {
            inherited.push(description.clone());
        }
    });
    if let Some(child) = task::vfork_child() {
        let installed = super::vfork::installed(child).into_iter();
        let installed = installed.filter_map(|(_, description)| description);
        inherited.extend(installed.filter(|description| may_be_lost(description)));
    }
    inherited.sort_by_key(|description| (description.mount.0, description.node));
    inherited.dedup_by_key(|description| (description.mount.0, description.node));
    inherited.retain(|description| is_lost(description));
    let owns = inherited.iter().filter_map(|description| {
        let file_system = crate::looked_at::file_system(description.mount).ok()?;
        let own = file_system.handed_down(description.node)?;
        Some((description.mount.0, own))
    });
    let given: Vec<(u16, i32)> = {
        let given = GIVEN.lock();
        let numbers = given
            .iter()
            .map(|(mount, place)| (*mount, place.load(Relaxed)));
        numbers.collect()
    };
    let known: Vec<_> = given
        .iter()
        .map(|&(mount, fd)| (mount, identity(fd)))
        .collect();
    // One that goes on anyway need not be handed down again.
    owns.filter(|&(mount, fd)| !known.contains(&(mount, identity(fd))))
        .chain(given)
        .take(MOST)
        .filter_map(|(mount, fd)| Some((mount, OwnedFd::from_raw(dup_high(fd, false).ok()?))))
        .collect()
}

/// Which file of the kernel's it is.
fn identity(fd: i32) -> Option<(u64, u64)> {
    let found = stat_descriptor(fd).ok()?;
    Some((found.st_dev, found.st_ino))
}

/// Whether the next program must find its node.
fn may_be_lost(description: &Description) -> bool {
    match &description.object {
        Object::File(file) => file.descriptor().is_none() && !description.is_direct(),
        Object::Directory | Object::Path => true,
        Object::Fifo | Object::Broken => false,
    }
}

/// Whether the next program would not find its node by its path. Files without a name go in another
/// way ([`crate::gone`]).
fn is_lost(description: &Description) -> bool {
    let Ok(file_system) = crate::looked_at::file_system(description.mount) else {
        return false;
    };
    if !file_system.capabilities().transient_nodes {
        return false;
    }
    match file_system.attributes(description.node) {
        Err(_) => false,
        Ok(found) if found.links == 0 => found.kind == FileKind::Directory,
        Ok(_) => !node_is_found(file_system, description.node),
    }
}

/// This program was given `fd`, for `mount`.
pub fn receive((mount, fd): (u16, i32)) {
    const F_SETFD: usize = 2;
    const FD_CLOEXEC: usize = 1;
    // SAFETY: the flag of a descriptor that is not the program's.
    if unsafe { syscall::call(nr::FCNTL, [fd as usize, F_SETFD, FD_CLOEXEC]) }.is_ok() {
        let place = run::get().receive_internal(fd);
        GIVEN.lock().push((mount, place));
    }
}

/// Whether the node of `name` is one that this program was given. It is known to `file_system`
/// then, and stays so.
pub fn find(file_system: &dyn FileSystem, name: ShadowName) -> bool {
    // In a child of vfork numbers are its own, and memory is its parent's.
    if task::vfork_child().is_some() {
        return false;
    }
    let mut given = GIVEN.lock();
    let found = given.iter().position(|(mount, place)| {
        if *mount != name.mount {
            return false;
        }
        let Ok(entry) = file_system.identify(place.load(Relaxed)) else {
            return false;
        };
        let node = entry.attributes.node;
        if node != name.node {
            file_system.forget(node, 1);
        }
        node == name.node
    });
    let Some((_, place)) = found.map(|at| given.swap_remove(at)) else {
        return false;
    };
    let fd = place.swap(-1, AcqRel);
    classes::set(fd, classes::UNKNOWN);
    drop(OwnedFd::from_raw(fd));
    true
}
