//! Directories of drivers, for a program that is not intercepted: what it inherits (open
//! directories, its working directory) stands for nothing that the kernel could list.
//!
//! Where the driver has a directory of the kernel's ([`culvert::FileSystem::kernel_node`]), the
//! program gets that. Else it gets a copy of the tree (`copied_tree.rs`), through a mount that
//! nothing can be written to where its user may override modes. Where neither can be had, an open
//! directory stays what it is, ENOTDIR, and the working directory becomes one that cannot be
//! listed: an error is better than an empty list. Positions are kept; from then on each side has
//! its own.

use super::copied_tree;
use crate::description::{Description, Object, kernel_seek};
use crate::process::{Here, Process};
use alloc::ffi::CString;
use alloc::{format, sync::Arc, vec::Vec};
use core::ffi::CStr;
use culvert::{Errno, FileKind};
use culvert_mounts::Place;
use culvert_run::files::{c_string, own_descriptor};
use culvert_run::{ShadowName, positions};
use culvert_sys::fd::CWD;
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::raw::general::{
    MOUNT_ATTR_RDONLY, O_DIRECTORY, OPEN_TREE_CLOEXEC, OPEN_TREE_CLONE, mount_attr,
};
use culvert_sys::{OwnedFd, fs};

const O_PATH: u32 = culvert_sys::raw::general::O_PATH;
/// Positions of `.` and `..` (vfs/list.rs).
const OWN_ENTRIES: u64 = 2;

/// Descriptors, and the working directory, that are others until an execve succeeds.
#[derive(Default)]
pub struct Replaced {
    /// The program's number, and what it was.
    descriptors: Vec<(i32, OwnedFd)>,
    /// Ends in NUL.
    working_directory: Option<CString>,
}

/// Before execve, which may fail, of a program that is not intercepted.
///
/// - `EACCES`: it would take its working directory for an empty one.
pub fn replace(process: &Process) -> Result<Replaced, Errno> {
    let mut replaced = Replaced::default();
    for (fd, description) in inherited(process) {
        let given = directory(process, &description, fd).and_then(|given| {
            let kept = culvert_run::files::dup_high(fd, true).map(OwnedFd::from_raw)?;
            dup3(given.raw(), fd)?;
            Ok(kept)
        });
        match given {
            Ok(kept) => replaced.descriptors.push((fd, kept)),
            Err(error) => culvert_sys::log!(
                "descriptor {fd}, a directory on {}, cannot be given to a program that is not \
                intercepted: {error}",
                process.mounts.shown_name(description.mount)
            ),
        }
    }
    let place = process.with_working_directory(|here| match here {
        Some(Here::Place(Place::Mount { mount, node })) => Some(ShadowName {
            mount: *mount,
            node: *node,
        }),
        _ => None,
    });
    if let Some(name) = place {
        replaced.working_directory = Some(process.run.working_directory(name));
        go_to(process, name).or_else(|error| {
            culvert_sys::log!(
                "the working directory, on {}, cannot be given to a program that is not \
                intercepted: {error}",
                process.mounts.shown_name(name.mount)
            );
            go_nowhere(process, name).map_err(|_| Errno::EACCES)
        })?;
    }
    Ok(replaced)
}

impl Drop for Replaced {
    /// The program goes on: execve has failed.
    fn drop(&mut self) {
        for (fd, was) in &self.descriptors {
            let _ = dup3(was.raw(), *fd);
        }
        if let Some(path) = &self.working_directory {
            let _ = fs::chdir(path);
        }
    }
}

/// The directories that survive exec.
fn inherited(process: &Process) -> Vec<(i32, Arc<Description>)> {
    let mut found = process.table.inherited(|description| {
        matches!(description.object, Object::Directory | Object::Path)
            && description.kind == FileKind::Directory
    });
    // Another process has the same table: exec would give this one its own, and others must not see
    // what is done before.
    if !found.is_empty() && process.table.is_shared() {
        // This thread gets a table of descriptors of its own.
        if culvert_sys::fd::unshare().is_err() {
            found.clear();
        }
    }
    found
}

/// A directory of the kernel's for the description of `fd`, at its position.
fn directory(process: &Process, description: &Description, fd: i32) -> Result<OwnedFd, Errno> {
    let name = description.name();
    let flags = match description.object {
        Object::Path => O_PATH | O_DIRECTORY,
        _ => O_DIRECTORY,
    };
    let position = match description.object {
        Object::Path => 0,
        _ => kernel_seek(fd, 0, 1)?.saturating_sub(OWN_ENTRIES),
    };
    if let Some(own) = kernel_directory(name, flags)? {
        // The driver's positions are those of its directory.
        if position != 0 {
            kernel_seek(own.raw(), position as i64, 0)?;
        }
        return Ok(own);
    }
    let copied = copy(process, name, flags)?;
    if position != 0 {
        seek_in_copy(name, &copied, position)?;
    }
    Ok(copied)
}

/// The driver's own directory.
fn kernel_directory(name: ShadowName, flags: u32) -> Result<Option<OwnedFd>, Errno> {
    let file_system = culvert_cache::file_system(name.mount)?;
    // One that the mount does not let anybody write is not to be written past it.
    if file_system.capabilities().read_only {
        return Ok(None);
    }
    let Some(own) = file_system.kernel_node(name.node) else {
        return Ok(None);
    };
    culvert_run::files::open(&own_descriptor(own), flags, 0).map(Some)
}

/// The copy of a directory, where nothing can be written.
fn copy(process: &Process, name: ShadowName, flags: u32) -> Result<OwnedFd, Errno> {
    let path = copied_tree::copy(process, name)?;
    match read_only_mount(&path) {
        Ok(tree) => fs::openat(&tree, c".", OFlags::from_bits(flags) | OFlags::CLOEXEC, 0),
        Err(_) if overrides_modes() => Err(Errno::EACCES),
        Err(_) => culvert_run::files::open(&path, flags, 0),
    }
}

/// A mount of the directory `path`, nowhere in the tree, that is read-only.
fn read_only_mount(path: &CStr) -> Result<OwnedFd, Errno> {
    let tree = fs::open_tree(CWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)?;
    let change = mount_attr {
        attr_set: MOUNT_ATTR_RDONLY.into(),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    fs::mount_setattr(&tree, c"", AtFlags::EMPTY_PATH, &change)?;
    Ok(tree)
}

/// Whether the permissions of files do not hold this process (CAP_DAC_OVERRIDE, capabilities(7)).
fn overrides_modes() -> bool {
    const CAP_DAC_OVERRIDE: u32 = 1 << 1;
    let sets = culvert_sys::process::capget();
    sets.map_or(true, |[low, _]| low[0] & CAP_DAC_OVERRIDE != 0)
}

/// Puts `copied` behind the names that were read before `position` of the driver's listing.
///
/// - `EOPNOTSUPP`: the copy does not list those first.
fn seek_in_copy(name: ShadowName, copied: &OwnedFd, position: u64) -> Result<(), Errno> {
    let file_system = culvert_cache::file_system(name.mount)?;
    let mut rest: Vec<Vec<u8>> = Vec::new();
    file_system
        .read_directory(
            &culvert_run::task::caller(),
            name.node,
            position,
            &mut |entry| {
                rest.push(entry.name.to_vec());
                true
            },
        )
        .map_err(|error| error.errno())?;
    let listed = positions(copied);
    let read = listed.len().checked_sub(rest.len()).ok_or(Errno::EAGAIN)?;
    let (before, behind) = listed.split_at(read);
    if behind.iter().any(|(name, _)| !rest.contains(name)) {
        return Err(Errno::EOPNOTSUPP);
    }
    let to = before.last().map_or(0, |(_, next)| *next);
    kernel_seek(copied.raw(), to as i64, 0).map(|_| ())
}

/// Makes the kernel's working directory the one that the program is to see for `name`, which is
/// noted, so that an intercepted program after it finds its way back.
fn go_to(process: &Process, name: ShadowName) -> Result<(), Errno> {
    let flags = O_PATH | O_DIRECTORY;
    let there = match kernel_directory(name, flags)? {
        Some(own) => own,
        None => copy(process, name, flags)?,
    };
    culvert_run::node_paths::note(name);
    process.run.mark_directory(name, there.raw())?;
    culvert_sys::fs::fchdir(culvert_sys::BorrowedFd::number(there.raw())).map(|_| ())
}

/// Makes it a directory whose listing is EINVAL (nothing less is an error to readdir(3), which
/// takes that of a removed directory for an empty one) and in which there is nothing and nothing
/// can be made: that of the networks of a process that is no more (`proc_tgid_net_readdir`,
/// fs/proc/proc_net.c).
fn go_nowhere(process: &Process, name: ShadowName) -> Result<(), Errno> {
    let ended = super::ended_process::EndedProcess::new()?;
    fs::chdir(&c_string(format!("/proc/{}/net", ended.id())))?;
    drop(ended);
    let here = culvert_run::files::open(c".", O_DIRECTORY, 0)?;
    let mut buffer = [0u8; 1024];
    if culvert_sys::fs::getdents64(&here, &mut buffer) != Err(Errno::EINVAL) {
        return Err(Errno::EOPNOTSUPP);
    }
    culvert_run::node_paths::note(name);
    let found = culvert_run::stat_descriptor(here.raw())?;
    process.run.note_nowhere(name, &found)
}

fn dup3(from: i32, to: i32) -> Result<(), Errno> {
    // Both are ours, `to` at the program's number, which survives exec.
    culvert_sys::fd::replace(culvert_sys::BorrowedFd::number(from), to, 0)
}
