//! Starting the engine.

use crate::{
    config::{self, Config, config},
    delivery::{alternate, mask},
    descriptors, interest, labels,
    patch::{self, Patched, Settings},
    signal::actions,
    thread,
};
use culvert_sys::Errno;

/// Why the engine does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kernel's reason.
    pub errno: Errno,
    /// What was attempted.
    pub what: &'static str,
}

/// Starts the engine: prepares this thread, installs the handlers for SIGSEGV, SIGBUS and SIGILL,
/// and patches everything that is mapped executable, ld.so included, the vDSO and the engine's own
/// object excluded. Code that is mapped later is patched before the program can run it.
///
/// The embedder's global allocator must not be the program's malloc: hooks allocate, also while the
/// program's allocator is locked for a fork.
///
/// # Safety
/// Once per process, by a thread that runs no code the patching changes, best before the program
/// has others.
pub unsafe fn install(config: Config) -> Result<(), Error> {
    if !has_gs_base() {
        return Err(Error {
            errno: Errno::EOPNOTSUPP,
            what: "the processor or kernel does not let programs set the GS base (FSGSBASE, Linux 5.9)",
        });
    }
    if thread::gs_base() != 0 {
        return Err(Error {
            errno: Errno::EBUSY,
            what: "the program uses the GS base itself",
        });
    }
    // SAFETY: no hook has run yet.
    unsafe { config::configure(config) };
    let block = thread::take_first();
    alternate::adopt_alternate_stack(block);
    thread::set_gs_base(block.address());
    actions::install(config.fresh);
    let patched = patch(0, usize::MAX);
    if let (0, Some(what)) = (patched.objects, patched.failed) {
        // No call would be intercepted.
        let errno = Errno::ENOENT;
        return Err(Error { errno, what });
    }
    report(patched);
    Ok(())
}

/// Says in the log what was not patched.
fn report(patched: Patched) {
    if let Some(reason) = patched.failed {
        (config().log)(reason.as_bytes());
    }
}

/// Patches what `start..start + length` touches.
fn patch(start: usize, length: usize) -> Patched {
    if !config().patch {
        return Patched::default();
    }
    let settings = Settings {
        entry: labels::entry(),
        interest: interest::of,
        numbers: interest::table() as usize,
        descriptors: descriptors::TABLE.0.as_ptr() as usize,
        own: labels::entry(),
        cache_directories: config().cache_directories,
    };
    // SAFETY: nobody runs the code. `install` runs in the only thread, in our own; and the system
    // call that has mapped it has not returned.
    unsafe { patch::range(&settings, start, length) }
}

/// AT_HWCAP2 bit 1 (`HWCAP2_FSGSBASE`).
fn has_gs_base() -> bool {
    const AT_HWCAP2: usize = 26;
    culvert_sys::process::auxiliary(AT_HWCAP2).is_some_and(|value| value & 2 != 0)
}

/// Patches what a handler itself has mapped executable.
pub fn code_mapped(start: usize, length: usize) {
    report(patch(start, length));
}

/// To be called inside a hook right before an execve that replaces the program: makes real in the
/// kernel what the engine keeps virtual (SIG_IGN and blocking of SIGSEGV, SIGBUS and SIGILL).
///
/// The execve itself goes through [`wait::interruptible`](crate::wait::interruptible): once a
/// signal is pending all are blocked, and the new program would inherit that. After
/// [`Interrupted`](crate::wait::Interrupted) the handler calls [`exec_failed`] and returns
/// [`Outcome::Restart`](crate::Outcome::Restart), which for an exec never ends in EINTR.
pub fn before_exec() {
    let block = thread::current();
    actions::before_exec(block.actions());
    mask::before_exec(block);
}

/// To be called when that execve has failed: undoes [`before_exec`].
pub fn exec_failed() {
    let block = thread::current();
    mask::exec_failed(block);
    actions::exec_failed(block.actions());
}
