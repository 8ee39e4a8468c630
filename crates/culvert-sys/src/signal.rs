//! Calls on what a process has of signals.

use crate::Errno;
use crate::plain::{Plain, filled};
use crate::table::calls;
use core::ptr::{from_mut, from_ref, null, null_mut};

/// `struct kernel_sigaction` of x86-64. All zeroes: the default.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// SIG_DFL (0), SIG_IGN (1), or the handler's address.
    pub handler: usize,
    /// `SA_*`.
    pub flags: u64,
    /// Where the handler returns to.
    pub restorer: usize,
    /// What is blocked while it runs.
    pub mask: u64,
}

// SAFETY: numbers.
unsafe impl Plain for Action {}

/// `stack_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AlternateStack {
    /// Its lowest address.
    pub base: usize,
    /// `SS_*`.
    pub flags: i32,
    /// Bytes.
    pub size: usize,
}

// SAFETY: numbers.
unsafe impl Plain for AlternateStack {}

calls! {
    fn sigaction(signal: u32, new: *const Action, old: *mut Action) -> ()
        = RT_SIGACTION[signal, new, old, size_of::<u64>()];
    fn sigaltstack(new: *const AlternateStack, old: *mut AlternateStack) -> ()
        = SIGALTSTACK[new, old];
    /// rt_tgsigqueueinfo(2): a signal with a `siginfo_t`.
    pub fn queue(process: u32, thread: u32, signal: u32, information: &[u64; 16]) -> ()
        = RT_TGSIGQUEUEINFO[process, thread, signal, from_ref(information)];
}

/// What the kernel does at `signal` (rt_sigaction(2)).
pub fn action(signal: u32) -> Result<Action, Errno> {
    filled(|into| sigaction(signal, null(), from_mut(into)))
}

/// The default action for `signal`.
pub fn set_default(signal: u32) -> Result<(), Errno> {
    sigaction(signal, &Action::default(), null_mut())
}

/// rt_sigaction(2).
///
/// # Safety
/// Handler and restorer are code that may be run there.
pub unsafe fn set_action(signal: u32, action: &Action) -> Result<(), Errno> {
    sigaction(signal, action, null_mut())
}

/// The same; what held before.
///
/// # Safety
/// As [`set_action`].
pub unsafe fn replace_action(signal: u32, action: &Action) -> Result<Action, Errno> {
    filled(|old| sigaction(signal, action, from_mut(old)))
}

/// The calling thread's alternate stack (sigaltstack(2)).
pub fn alternate_stack() -> Result<AlternateStack, Errno> {
    filled(|into| sigaltstack(null(), from_mut(into)))
}

/// sigaltstack(2).
///
/// # Safety
/// The stack, if it is not disabled, is memory that nobody uses for anything else.
pub unsafe fn set_alternate_stack(stack: &AlternateStack) -> Result<(), Errno> {
    sigaltstack(stack, null_mut())
}
