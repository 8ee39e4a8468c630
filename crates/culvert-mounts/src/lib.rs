//! The mounts of a process, and what a path names among them.
//!
//! The table knows where drivers are mounted and how mounts nest; the [`resolver`] walks paths
//! over it by the kernel's rules. Neither makes a system call.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod references;
pub mod resolver;
mod table;

pub use references::{Hold, References};
pub use table::{MountId, MountTable, OpenDriver, Place};
