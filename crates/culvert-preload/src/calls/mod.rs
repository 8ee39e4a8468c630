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

use crate::answer::{Answer, FORWARD, RESTART};
use crate::description::Held;
use crate::process as state;
use culvert::Errno;
use culvert_intercept::{Call, Outcome};

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
