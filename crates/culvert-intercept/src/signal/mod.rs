//! The program's signals, kept away from the insides of hooks.
//!
//! For every signal that the program handles, the kernel is given the engine's handler instead
//! (`actions`), with the program's flags, mask and restorer. Outside a hook it jumps on to the
//! program's handler, on the same frame with the same arguments, at no cost worth mentioning.
//! Inside a hook it records the signal, blocks all signals in the mask that its return restores,
//! and returns; the way out of the hook raises it again (`deliver`), so that it arrives with the
//! context of the program right behind its system call.
//!
//! SIGSEGV, SIGBUS and SIGILL are always handled and never blocked in the kernel, as user copies
//! and `ud2` sites depend on them; what the program wants for them is kept here (`mask`).

pub(crate) mod actions;
pub(crate) mod alternate;
pub(crate) mod context;
pub(crate) mod deliver;
pub(crate) mod handler;
pub(crate) mod mask;
mod refused;

pub(crate) use alternate::adopt_alternate_stack;
pub(crate) use handler::Recorded;

pub(crate) const SIGILL: usize = 4;
pub(crate) const SIGTRAP: usize = 5;
pub(crate) const SIGBUS: usize = 7;
pub(crate) const SIGFPE: usize = 8;
pub(crate) const SIGKILL: usize = 9;
pub(crate) const SIGSEGV: usize = 11;
pub(crate) const SIGSTOP: usize = 19;
pub(crate) const SIGSYS: usize = 31;

/// The bit of a signal in a mask.
pub(crate) const fn bit(signal: usize) -> u64 {
    1 << (signal - 1)
}

/// Signals that the engine itself needs, which are never blocked in the kernel.
pub(crate) const NEEDED: u64 = bit(SIGILL) | bit(SIGBUS) | bit(SIGSEGV);

/// Everything but the signals that instructions raise.
pub(crate) const ASYNCHRONOUS: u64 = !(NEEDED | bit(SIGTRAP) | bit(SIGFPE) | bit(SIGSYS));
