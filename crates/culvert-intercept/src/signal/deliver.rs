//! Recorded signals, on the way out of a hook.

use super::{actions, alternate, context::AlternateStack, handler::Information, refused};
use crate::thread::{ALTERNATE_STACK, SIGNALS, ThreadBlock};
use core::sync::atomic::Ordering::Relaxed;
use culvert_sys::{Errno, nr, syscall};

const SIG_SETMASK: usize = 2;

/// What a hook that ended with [`Outcome::Restart`](crate::Outcome::Restart) is waiting for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// Nothing.
    No,
    /// SA_RESTART decides (ERESTARTSYS).
    Allowed,
    /// The call has not begun: make it whatever the flags (ERESTARTNOINTR).
    Always,
}

/// Blocks all signals, raises the recorded ones again, gives back the alternate stack. The assembly
/// then restores `mask`.
pub(crate) extern "C" fn deliver(block: &ThreadBlock) {
    let before = set_mask(!0);
    // SAFETY: all signals are blocked, and the thread is here; nobody else touches the frame.
    let frame = unsafe { &mut *block.frame.get() };
    let pending = block.pending().load(Relaxed);
    if pending & SIGNALS == 0 {
        frame.mask = before;
    }
    if pending & ALTERNATE_STACK != 0 {
        alternate::set(&AlternateStack {
            base: frame.alternate_base,
            flags: frame.alternate_flags,
            size: frame.alternate_size,
        });
    }
    // SAFETY: as above.
    let recorded = unsafe { &*block.recorded.get() };
    let first = recorded
        .all()
        .iter()
        .map(|information| information.signal)
        .min();
    if frame.restart != Restart::No {
        let again = frame.restart == Restart::Always
            || first.is_none_or(|signal| actions::of(Some(block)).restarts(signal as usize));
        frame.restart = Restart::No;
        if again {
            // SAFETY: records live for ever.
            frame.resume = unsafe { (*frame.record).restart };
            frame.result = frame.number as isize;
        } else {
            // SAFETY: as above.
            frame.resume = unsafe { (*frame.record).resume };
            frame.result = Errno::EINTR.negated();
        }
    }
    refused::undo(block);
    raise_all(block);
    block.pending().store(0, Relaxed);
}

/// Raises what was recorded on top of a handler that met the program at the boundary; the mask
/// becomes the one of that handler.
pub(crate) fn on_top(block: &ThreadBlock) {
    set_mask(!0);
    // SAFETY: as in `deliver`.
    let mask = unsafe { (*block.frame.get()).mask };
    raise_all(block);
    block.pending().fetch_and(!SIGNALS, Relaxed);
    set_mask(mask);
}

fn raise_all(block: &ThreadBlock) {
    // SAFETY: all signals are blocked.
    let recorded = unsafe { &*block.recorded.get() };
    for information in recorded.all() {
        raise(information);
    }
    recorded.forget();
}

/// Sends this thread the signal with the information it came with.
pub(crate) fn raise(information: &Information) {
    // SAFETY: numbers, and a siginfo that outlives the call. A thread may send itself any code
    // (`do_rt_tgsigqueueinfo`).
    unsafe {
        let process = syscall::raw(nr::GETPID, [0; 6]) as usize;
        let thread = syscall::raw(nr::GETTID, [0; 6]) as usize;
        let signal = information.signal as usize;
        let at = core::ptr::from_ref(information) as usize;
        if syscall::call(nr::RT_TGSIGQUEUEINFO, [process, thread, signal, at]).is_err() {
            let _ = syscall::call(nr::TGKILL, [process, thread, signal]);
        }
    }
}

/// Sets this thread's mask in the kernel and returns the former.
pub(crate) fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    // SAFETY: two masks of ours.
    unsafe {
        let _ = syscall::call(
            nr::RT_SIGPROCMASK,
            [
                SIG_SETMASK,
                (&raw const mask) as usize,
                (&raw mut before) as usize,
                8,
            ],
        );
    }
    before
}
