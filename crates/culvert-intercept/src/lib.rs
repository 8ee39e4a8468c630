//! The interception engine: every system call that the process makes and that somebody is
//! interested in is offered to a handler first.
//!
//! It rewrites system-call *instructions*, not library symbols, and knows nothing of file systems.
//! The boundary is here too: copies from and to the program's memory that end in `EFAULT` instead
//! of a crash, virtualised signals, threads, fork.
//!
//! # What an embedder owes
//!
//! A handler runs in the middle of somebody else's program, so whatever it is linked from
//!
//! - calls no libc and takes memory from an allocator of its own: the program's may be locked by
//!   the very thread that made the call;
//! - uses the instructions of the x86-64 baseline only, `memcpy` included: hooks keep xmm0 to
//!   xmm15, and what AVX adds survives because nobody touches it;
//! - blocks in nothing but [`wait::interruptible`], and holds no lock there;
//! - touches the program's memory through [`user`] only.
//!
//! System calls of the handler's own ([`culvert_sys::syscall`]) are executed directly: the engine's
//! object is never patched.
#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod adopt;
pub mod analysis;
pub(crate) mod arena;
pub mod cache;
mod call;
pub(crate) mod chunk;
mod classify;
mod clone;
mod clone_flags;
mod config;
mod delivery;
pub mod descriptors;
mod dispatch;
pub mod elf;
mod entry;
pub mod filters;
pub mod frames;
pub mod functions;
pub mod images;
mod install;
pub(crate) mod interest;
mod labels;
pub(crate) mod mapped;
pub mod maps;
mod object;
pub mod originals;
pub mod patch;
mod quiesce;
pub mod registry;
mod scan;
pub mod search;
mod seccomp;
mod signal;
mod site;
pub mod sites;
pub mod stub;
#[cfg(test)]
mod tests;
mod thread;
pub mod user;
mod verdict;
pub mod wait;
pub(crate) mod write;

pub use call::Replaced;
pub use clone_flags::CloneFlags;
pub use config::{Config, ForkHooks, Handler};
pub use install::{Error, before_exec, code_mapped, exec_failed, install};
pub use interest::Interests;
pub use quiesce::{
    exclusively, forked_beside_others, if_alone, is_last_thread, multi_threaded, stop_others,
};
pub use site::{Places, SiteRecord};
pub use thread::{ThreadBlock, current, first_stack};

/// A system call that the program is making.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// Its number; a handler may change it before forwarding.
    pub number: usize,
    /// Its six arguments; a handler may change them before forwarding.
    pub args: [usize; 6],
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done: this goes into rax (a value, or a negated errno).
    Return(isize),
    /// The real system call is executed on the program's own stack, with number and arguments as
    /// they now stand in the [`Call`]: at the program's own instruction when nothing was changed,
    /// else by the engine. Registers other than rax are the program's own again afterwards. A
    /// changed call that a signal interrupts before it has begun is offered again. Memory that a
    /// changed argument points to must stay until the kernel has read it: the thread's next hook is
    /// soon enough.
    Forward,
    /// An interruptible wait inside the hook was interrupted: the pending signal is delivered, then
    /// the call is made again when the handler has SA_RESTART, or the wait had not begun, else it
    /// ends with EINTR (the kernel's ERESTARTSYS).
    Restart,
}

/// When a call is offered to the handler; everything else is executed at once, in a few
/// instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Interest {
    /// Never.
    Never = 0,
    /// Always.
    Always = 1,
    /// When argument 0 is a descriptor that is not known to be foreign.
    Descriptor0 = 2,
    /// As [`Interest::Descriptor0`], of a call that concerns a file's bytes alone: not where those
    /// are the kernel's ([`descriptors::BYTES`]).
    Bytes0 = 3,
    /// When argument 0 or 1 is such a descriptor as of [`Interest::Bytes0`].
    Bytes01 = 4,
    /// When argument 0 or 2 is such a descriptor.
    Bytes02 = 5,
}
