//! Starting the engine.

use crate::{Call, CloneFlags, Interest, Outcome};
use culvert_sys::Errno;

/// Answers a call, on the hook stack of the thread that makes it.
pub type Handler = fn(&mut Call) -> Outcome;

/// What the embedder does around the creation of processes. Each runs inside the hook, on the hook stack.
#[derive(Clone, Copy)]
pub struct ForkHooks {
    /// Before; unless memory is shared (CLONE_VM), no other thread is inside a hook from here until the parent's and child's functions have returned.
    pub before: fn(CloneFlags),
    /// In the parent, with the child's pid or a negated errno. After a vfork: when the child has called exec or ended.
    pub parent: fn(CloneFlags, isize),
    /// First thing in a new *process* (fork, vfork, CLONE_VM without CLONE_THREAD alike), not in a new thread.
    pub child: fn(CloneFlags),
}

/// What the engine is to do.
#[derive(Clone, Copy)]
pub struct Config {
    /// Answers the calls.
    pub handler: Handler,
    /// Which calls it wants to see: a pure function of the number. The engine sees those it needs itself in addition.
    pub interest: fn(usize) -> Interest,
    /// Around fork.
    pub fork: ForkHooks,
    /// Whether to patch at all (`--no-patch`).
    pub patch: bool,
    /// Where site tables are cached, in the order of preference; absolute paths.
    pub cache_directories: &'static [&'static [u8]],
    /// Takes one line, without a line break, about something that is not as it should be.
    pub log: fn(&[u8]),
}

/// Why the engine does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kernel's reason.
    pub errno: Errno,
    /// What was attempted.
    pub what: &'static str,
}

/// Starts the engine: prepares this thread, installs the handlers for SIGSEGV, SIGBUS and SIGILL, and patches everything that is mapped executable,
/// ld.so included, the vDSO and the engine's own object excluded. Code that is mapped later is patched before the program can run it.
///
/// # Safety
/// Once per process, by a thread that runs no code the patching changes, best before the program has others.
pub unsafe fn install(config: Config) -> Result<(), Error> {
    let _ = config;
    Ok(())
}

/// Patches what a handler itself has mapped executable.
pub fn code_mapped(start: usize, length: usize) {
    let _ = (start, length);
}

/// To be called inside a hook right before an execve that replaces the program: makes real in the kernel what the engine keeps virtual (SIG_IGN and
/// blocking of SIGSEGV, SIGBUS and SIGILL).
pub fn before_exec() {}

/// To be called when that execve has failed: undoes [`before_exec`].
pub fn exec_failed() {}
