//! Recorded signals, on the way out of a hook.

use super::{alternate, context::AlternateStack, refused};
use crate::{
    signal::{raise, set_mask},
    thread::{ALTERNATE_STACK, Restart, SIGNALS, ThreadBlock},
};
use core::sync::atomic::Ordering::Relaxed;
use culvert_sys::Errno;

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
            || first.is_none_or(|signal| block.actions().restarts(signal as usize));
        frame.restart = Restart::No;
        if again {
            frame.resume = frame.record().restart;
            frame.result = frame.number as isize;
        } else {
            frame.resume = frame.record().resume;
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
