//! The kernel's part, played inside a program's own process.
//!
//! Data flows one way: the engine offers a system call ([`table`]), a function of [`syscalls`]
//! decodes it, and [`vfs`] answers it, with the [`culvert_mounts::resolver`] for paths and
//! [`descriptors`] and
//! [`description`] for open files, by asking a driver. [`lifecycle`] and [`exec`] see to what
//! processes become.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod answer;
pub mod backing;
pub mod description;
pub mod descriptors;
pub mod dispatch;
pub mod exec;
pub mod fuse_server;
pub mod lifecycle;
pub mod notice;
pub mod orphan_handover;
pub mod process;
pub mod rings;
pub mod start;
mod strangers;
pub mod syscalls;
pub mod table;
pub mod vfs;
pub mod watch;
