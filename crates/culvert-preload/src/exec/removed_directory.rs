//! The working directory of the next program, of a driver whose nodes another program finds by
//! their paths only.
//!
//! A directory that has a path is found by it: the path is noted beside its node. A removed one has
//! none. The next program gets a removed directory of the run directory in its place, of which the
//! kernel says what it says of removed directories.

use crate::process::{Here, Process};
use alloc::{ffi::CString, format};
use culvert::Caller;
use culvert_mounts::Place;
use culvert_run::ShadowName;
use culvert_sys::fs;

/// That the kernel's working directory is such a one for now.
pub struct Moved {
    back: CString,
}

/// Before execve, which may fail.
pub fn replace(process: &Process) -> Option<Moved> {
    let place = process.with_working_directory(|here| match here {
        Some(Here::Place(Place::Mount { mount, node })) => Some((*mount, *node)),
        _ => None,
    });
    let (mount, node) = place?;
    let file_system = process.mounts.driver_if_open(mount)?;
    if !file_system.capabilities().transient_nodes {
        return None;
    }
    let attributes = file_system.attributes(&Caller::SYSTEM, node).ok()?;
    let name = ShadowName { mount, node };
    if attributes.links != 0 {
        culvert_run::node_paths::note(name);
        return None;
    }
    let thread = culvert_sys::process::gettid() as isize;
    // Two, so that `..` leads nowhere else either.
    let above = process.run.file(&format!("removed-{thread}"));
    let removed = process.run.file(&format!("removed-{thread}/directory"));
    let mode = attributes.permissions | 0o700;
    let _ = culvert_run::make_directory(&above);
    let _ = culvert_run::make_directory(&removed);
    let _ = fs::chmod(&removed, mode);
    let there = fs::chdir(&removed);
    let _ = fs::rmdir(&removed);
    let _ = fs::rmdir(&above);
    there.ok()?;
    Some(Moved {
        back: process.run.working_directory(name),
    })
}

impl Drop for Moved {
    /// The program goes on: execve has failed.
    fn drop(&mut self) {
        // This directory is what it was in before.
        let _ = fs::chdir(&self.back);
    }
}
