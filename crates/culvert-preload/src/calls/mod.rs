//! The system calls, one module for each family. Which function answers which call is in
//! [`crate::table`].

pub mod access;
pub mod advice;
pub mod aio;
pub mod attributes;
pub mod backed;
pub mod backed_open;
pub mod changes;
pub mod credentials;
pub mod cwd;
pub mod descriptor;
pub mod descriptor_arguments;
pub mod directory;
pub mod file;
mod hidden;
pub mod host;
pub mod inotify;
pub mod io;
pub mod locks;
pub mod mappings;
pub mod memory_map;
mod mount_points;
pub mod mount_tables;
pub mod mounting;
pub mod open;
mod opened;
pub mod path;
pub mod proc_files;
pub mod process;
pub mod seek;
pub mod shown;
pub mod socket;
pub mod splice;
pub mod stat;
pub mod targets;
pub mod transfer;
pub mod two_paths;
pub mod unbuffered;
pub mod unix_sockets;
pub mod xattr;

use crate::description::Held;
use crate::process as state;
use culvert::{Attributes, Caller, Errno};
use culvert_intercept::{Call, Outcome};

/// What a call comes to: what goes into rax, or an errno.
pub type Answer = Result<usize, Errno>;

/// The answer as the engine wants it.
#[inline]
pub fn done(answer: Answer) -> Outcome {
    match answer {
        Ok(value) => Outcome::Return(value as isize),
        Err(RESTART) => Outcome::Restart,
        Err(FORWARD) => Outcome::Forward,
        Err(errno) => Outcome::Return(errno.negated()),
    }
}

/// A wait was interrupted by a signal: it is delivered, then the call is made again or ends with
/// EINTR (the kernel's ERESTARTSYS).
pub const RESTART: Errno = Errno::new(512);

/// The call is the kernel's after all: its descriptor has become one on the file itself since the
/// call began.
pub const FORWARD: Errno = Errno::new(513);

/// The description behind a descriptor argument, if it is ours. The kernel looks at the low 32 bits
/// only.
#[inline]
pub fn descriptor(argument: usize) -> Option<Held> {
    state::get().table.get(argument as i32)
}

/// The same for calls that concern a file's bytes: none when its descriptor is on the file itself,
/// so that the kernel does right.
#[inline]
pub fn driven(argument: usize) -> Option<Held> {
    descriptor(argument).filter(|held| !held.is_direct())
}

/// Refuses a descriptor call on our files.
pub fn refuse(call: &mut Call, errno: Errno) -> Outcome {
    if descriptor(call.args[0]).is_some() {
        done(Err(errno))
    } else {
        Outcome::Forward
    }
}

/// The right to do `wanted` (as [`permits`]) to a node with `attributes`, before an operation that
/// needs it: EACCES, where not the operation itself finds out
/// ([`culvert::Capabilities::checks_permissions`]: mode bits say little where there are access
/// lists).
pub fn allowed(
    file_system: &dyn culvert::FileSystem,
    attributes: &Attributes,
    wanted: u32,
) -> Result<(), Errno> {
    let decides = file_system.capabilities().checks_permissions;
    match decides || permits(&state::caller(), attributes, wanted) {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// The same where no operation of the driver follows that would find out: access(2), chdir(2),
/// execve(2).
pub fn granted(
    file_system: &dyn culvert::FileSystem,
    caller: &Caller<'_>,
    attributes: &Attributes,
    wanted: u32,
) -> Result<(), Errno> {
    match file_system.capabilities().checks_permissions {
        true => file_system
            .access(caller, attributes.node, culvert::Access(wanted))
            .map_err(|error| error.errno()),
        false if permits(caller, attributes, wanted) => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// Whether `caller` may do `wanted` (4 read, 2 write, 1 execute or search) to something with
/// `attributes`.
pub fn permits(caller: &Caller<'_>, attributes: &Attributes, wanted: u32) -> bool {
    caller.may(culvert::Access(wanted), attributes).is_ok()
}
