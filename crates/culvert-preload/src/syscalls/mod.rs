//! The system calls, one module for each family. Which function answers which call is in
//! `table.rs`.

pub mod access;
pub mod advice;
pub mod aio;
pub mod arguments;
pub mod attributes;
pub mod backed;
pub mod changes;
pub mod credentials;
pub mod cwd;
pub mod descriptor;
pub mod descriptor_arguments;
pub mod directory;
pub mod file;
mod hidden;
pub mod io;
pub mod locks;
pub mod mappings;
pub mod memory_map;
pub mod mounting;
pub mod open;
pub mod path;
pub mod polling;
pub mod process;
pub mod seek;
pub mod socket;
pub mod socket_paths;
pub mod stat;
pub mod transfer;
pub mod two_paths;
pub mod unbuffered;
pub mod unix_sockets;
pub mod xattr;

use crate::answer::{Answer, FORWARD, RESTART};
use culvert_intercept::Outcome;

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
