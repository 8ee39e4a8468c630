//! System calls, errno values and locks without libc.
//!
//! Everything here may run inside a system-call hook of a foreign process: nothing allocates
//! through the program's malloc, nothing touches `errno`, nothing calls libc, so nothing can
//! re-enter the hook.
//!
//! Calls are typed: [`fs`], [`fd`], [`net`], [`process`], [`signal`] and [`memory`] need hardly any
//! `unsafe` where they are called. They are our own and not rustix's, whose Linux back end is as
//! free of libc, because each call has to pass one place: the gate of [`syscall::ask_first`] stops
//! what a seccomp filter of the program's would punish, and [`waits`] lets other threads fork
//! beside a call that waits. Under rustix even the close(2) of a dropped descriptor would pass by
//! both. And crates that the command uses with their feature `std` (rustix, bitflags) cannot be in
//! the library: a build of the workspace gives them one set of features.
#![no_std]

extern crate alloc;

mod abort;
mod atomic_ref;
pub mod clock;
pub mod errno;
pub mod fd;
pub mod flags;
pub mod fs;
pub mod ioctl;
pub mod log;
pub mod memory;
pub mod net;
pub mod nr;
pub mod own_descriptors;
pub mod place;
pub mod plain;
pub mod process;
pub mod shared;
pub mod signal;
pub mod sync;
pub mod syscall;
pub mod table;
pub mod trust;
pub mod waits;

pub use abort::abort;
pub use errno::Errno;
pub use fd::{AsFd, BorrowedFd, OwnedFd};
pub use linux_raw_sys as raw;
pub use shared::{Shared, SharedMut};

/// Bytes of a page (x86-64).
pub const PAGE: usize = 4096;
/// [`PAGE`], for offsets in files.
pub const PAGE64: u64 = PAGE as u64;
