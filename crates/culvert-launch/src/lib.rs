//! What `culvert run` does before the program starts.
//!
//! There are two who launch: the first stage, a small static program without libc that takes the
//! plain cases ([`plain`]), and the whole command, which takes all others. What both do is here
//! once; what is not plain the first stage never judges, it executes the whole command instead.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod directory;
pub mod kept;
pub mod library_copy;
mod mounts;
mod path;
pub mod plain;
mod program;
pub mod run_directory;
pub mod stores;
mod words;

/// The file name of the whole command, beside libculvert.so.
pub const WHOLE: &str = "culvert-full";

/// What a set-user-ID command is refused with.
pub const NOT_SET_USER: &str = "culvert must not be a set-user-ID program";
/// What to do about it.
pub const NOT_SET_USER_ADVICE: &str = "take the bit off (chmod u-s); users mount by fusermount3";
