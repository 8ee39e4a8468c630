//! Who may get descriptors and read them without Culvert: programs that are not intercepted,
//! processes outside of the run, and those of the run that have another root or a seccomp filter,
//! to which the kernel does not say what a descriptor stands for. They are given the files' bytes
//! in shadows, which are filled before the descriptor goes.

use crate::description::{Description, Object, given_to_strangers};
use crate::process::{self, Process};
use alloc::collections::BTreeMap;
use alloc::format;
use core::sync::atomic::Ordering::*;
use culvert::Errno;
use culvert_cache::{State, strangers};
use culvert_run::files::{c_string, open_descriptors};
use culvert_run::{ShadowName, read_link, stat_descriptor};
use culvert_sys::BorrowedFd;
use culvert_sys::net::socket_option;
use culvert_sys::raw::net::SO_PEERCRED;

/// From here on there is such a process in the run, or what another one hands on may come to one.
pub fn are_there() {
    let process = process::get();
    if process.mounts.is_empty() {
        return;
    }
    if let Some(notes) = process.node_locks.notes() {
        notes.outside.store(1, Release);
    }
}

/// Whether what is sent through `socket` may come to one: there is one in the run, or who is at the
/// other end is none of the run.
pub fn may_receive(socket: i32) -> bool {
    let Some(notes) = process::get().node_locks.notes() else {
        return true;
    };
    if notes.outside.load(Acquire) != 0 {
        return true;
    }
    let outside = !peer_is_of_run(socket);
    if outside {
        // It may hand on what it gets, a socket among it.
        notes.outside.store(1, Release);
    }
    outside
}

/// Whether who made the other end of `socket` is a process of the run. (Who has it by now may be
/// another one; if it is none of the run, it was given the socket by somebody who saw that.)
fn peer_is_of_run(socket: i32) -> bool {
    // `struct ucred`: process, user, group.
    let peer: Result<[i32; 3], _> = socket_option(BorrowedFd::number(socket), SO_PEERCRED);
    let peer = peer.map_or(0, |[process, ..]| process);
    if peer <= 0 {
        return false;
    }
    let process = process::get();
    // All of the run hold its lock.
    let lock = process.run.lock_descriptor.load(Relaxed);
    let link = || read_link(&c_string(format!("/proc/{peer}/fd/{lock}")));
    peer as u32 == culvert_sys::process::getpid()
        || link().is_ok_and(|link| link.strip_suffix(b"/lock") == Some(&process.run.path))
}

/// Gives the bytes of `description`, of the descriptor `fd`, to strangers: they read, and where it
/// may be written write, its shadow from now on, which follows the file.
///
/// Who cannot reach the run directory any more has given what was open when he left.
pub fn give(description: &Description, fd: i32, call: &str) -> Result<(), Errno> {
    let Object::File(file) = &description.object else {
        return Ok(());
    };
    if description.is_direct() {
        return Ok(());
    }
    let immutable = culvert_cache::file_system(description.mount)?
        .capabilities()
        .immutable;
    let is_given = || {
        let found = stat_descriptor(fd);
        found.is_ok_and(|it| State::of(&it).has_all() && (immutable || State::of(&it).follows()))
    };
    let given = if culvert_run::task::has_left() {
        Err(Errno::ENOENT.into())
    } else if immutable {
        culvert_cache::mappable::fill(description.name(), &**file)
    } else {
        given_to_strangers();
        match description.writable() {
            Ok(_) => strangers::give(description),
            Err(_) => strangers::keep_equal(description, false).map(drop),
        }
    };
    match given {
        Err(error) if !is_given() => Err(crate::description::report(description, call, &error)),
        _ => Ok(()),
    }
}

/// Gives all files that are open here and survive exec, or all of them: whoever gets them next
/// reads them without us. The last error.
pub fn give_all(process: &Process, only_inheritable: bool) -> Result<(), Errno> {
    // What this process has inherited and never used is not in the table yet.
    for fd in open_descriptors() {
        process.table.get(fd);
    }
    let given = match only_inheritable {
        true => process.table.inherited(|_| true),
        false => process.table.all(|_, _| true),
    };
    let mut result = Ok(());
    for (fd, description) in given {
        result = result.and(give(&description, fd, "exec"));
    }
    result
}

/// This process is about to change its root, below which the run directory is not found: what it
/// will need of that is opened now. Its programs are strangers.
pub fn before_leaving() {
    let process = process::get();
    if process.mounts.is_empty()
        || culvert_run::task::has_left()
        || culvert_run::task::is_confined()
    {
        return;
    }
    are_there();
    culvert_run::restarts::look();
    for mount in process.mounts.ids() {
        let _ = culvert_cache::file_system(mount);
    }
    let promoted = process.table.promote_all(false);
    let ready = promoted
        .and(give_all(process, false))
        .and_then(|()| keep_shadows(process));
    if let Err(error) = ready {
        culvert_sys::log!("below another root some open files cannot be read after exec: {error}");
    }
}

/// What others store into open files is seen by another user, too, and what that one writes by
/// them.
pub fn keep_shadows(process: &process::Process) -> Result<(), Errno> {
    culvert_cache::records::prepare()?;
    if culvert_run::task::vfork_child().is_some() {
        return Ok(());
    }
    let mut wanted: BTreeMap<ShadowName, bool> = BTreeMap::new();
    process.table.each(|_, description| {
        let is_file = matches!(description.object, Object::File(_));
        if description.changes && is_file && !description.is_direct() {
            let writable = wanted.entry(description.name()).or_default();
            *writable |= description.writable().is_ok();
        }
    });
    culvert_cache::pinned::pin(&wanted)
}
