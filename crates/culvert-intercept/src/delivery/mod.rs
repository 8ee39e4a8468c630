//! The program's signals, kept away from the insides of hooks.
//!
//! For every signal that the program handles, the kernel is given the engine's handler instead
//! (`signal::actions`), with the program's flags, mask and restorer. Outside a hook it jumps to the
//! program's handler, on the same frame with the same arguments, at no cost worth mentioning.
//! Inside a hook it records the signal, blocks all signals in the mask that its return restores,
//! and returns; the way out of the hook raises it again (`deliver`), so that it arrives with the
//! context of the program right behind its system call.
//!
//! SIGSEGV, SIGBUS and SIGILL are always handled and never blocked in the kernel, as user copies
//! and `ud2` sites depend on them; what the program wants for them is kept here (`mask`).

pub(crate) mod alternate;
pub(crate) mod context;
pub(crate) mod deliver;
pub(crate) mod handler;
pub(crate) mod mask;
mod refused;
