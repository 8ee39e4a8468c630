//! System calls, errno values and locks without libc.
//!
//! Everything here may run inside a system-call hook of a foreign process: nothing allocates
//! through the program's malloc, nothing touches `errno`, nothing calls libc, so nothing can
//! re-enter the hook.
#![no_std]

mod abort;
pub mod clock;
pub mod errno;
pub mod nr;
pub mod own_descriptors;
pub mod place;
pub mod sync;
pub mod syscall;
pub mod trust;
pub mod waits;

pub use abort::abort;
pub use errno::Errno;
pub use linux_raw_sys as raw;

/// Bytes of a page (x86-64).
pub const PAGE: usize = 4096;
/// [`PAGE`], for offsets in files.
pub const PAGE64: u64 = PAGE as u64;
