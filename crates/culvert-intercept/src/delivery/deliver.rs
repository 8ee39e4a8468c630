//! Recorded signals, on the way out of a hook.

use super::{alternate, refused};
use crate::{
    signal::{information::Information, raise, set_mask},
    thread::{ALTERNATE_STACK, Restart, SIGNALS, ThreadBlock},
};
use core::sync::atomic::Ordering::Relaxed;
use culvert_sys::Errno;

/// Blocks all signals, raises the recorded ones again, gives back the alternate stack. The assembly
/// then restores `mask`.
pub(crate) extern "C" fn deliver(block: &ThreadBlock) {
    let before = set_mask(!0);
    let frame = &block.frame;
    let pending = frame.pending.load(Relaxed);
    if pending & SIGNALS == 0 {
        frame.mask.set(before as usize);
    }
    if pending & ALTERNATE_STACK != 0 {
        alternate::give_back(frame);
    }
    let restart = frame.restart.get();
    if restart != Restart::No as usize {
        let first = block.recorded.all().map(|one| one.signal()).min();
        let again = restart == Restart::Always as usize
            || first.is_none_or(|signal| block.actions().restarts(signal));
        frame.restart.set(Restart::No as usize);
        if again {
            frame.resume.set(frame.record().restart());
            frame.result.set(frame.number.get());
        } else {
            frame.resume.set(frame.record().resume());
            frame.result.set(Errno::EINTR.negated() as usize);
        }
    }
    refused::undo(block);
    raise_all(block);
    frame.pending.store(0, Relaxed);
}

/// Raises what was recorded on top of a handler that met the program at the boundary; the mask
/// becomes the one of that handler.
pub(crate) fn on_top(block: &ThreadBlock) {
    set_mask(!0);
    raise_all(block);
    block.frame.pending.fetch_and(!SIGNALS, Relaxed);
    set_mask(block.frame.mask.get() as u64);
}

fn raise_all(block: &ThreadBlock) {
    block
        .recorded
        .all()
        .for_each(|one: Information| raise(&one));
    block.recorded.forget();
}
