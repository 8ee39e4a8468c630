//! The alternate signal stack (sigaltstack(2)).
//!
//! The kernel puts a frame at the top of the alternate stack unless the stack pointer lies in it
//! already. Inside a hook it lies on the hook stack; so, when the program is on its alternate stack
//! (it calls read() from a handler, say), a second signal would overwrite the frames of the first.
//! For the duration of such a hook the alternate stack is taken from the kernel.

use crate::{
    signal::set_mask,
    thread::{ALTERNATE_STACK, Frame, ThreadBlock},
    user,
};
use core::sync::atomic::Ordering::Relaxed;
use culvert_sys::signal::{self, AlternateStack};

const SS_DISABLE: i32 = 2;
const SS_ONSTACK: i32 = 1;
/// The kernel itself takes the stack away while a handler runs on it.
const SS_AUTODISARM: i32 = i32::MIN;

const NONE: AlternateStack = AlternateStack {
    base: 0,
    flags: SS_DISABLE,
    size: 0,
};

fn get() -> AlternateStack {
    signal::alternate_stack().unwrap_or(NONE)
}

fn set(stack: &AlternateStack) {
    // SAFETY: none, or the one that the program has set.
    let _ = unsafe { signal::set_alternate_stack(stack) };
}

/// The stack that [`take_away`] has taken.
pub(crate) fn taken(frame: &Frame) -> AlternateStack {
    AlternateStack {
        base: frame.alternate_base.get(),
        flags: frame.alternate_flags.get() as i32,
        size: frame.alternate_size.get(),
    }
}

/// Gives it back to the kernel.
pub(crate) fn give_back(frame: &Frame) {
    set(&taken(frame));
}

fn remember(block: &ThreadBlock, stack: &AlternateStack) {
    let used = stack.flags & (SS_DISABLE | SS_AUTODISARM) == 0;
    block.frame.alternate_base.set(stack.base);
    let size = if used { stack.size } else { 0 };
    block.frame.alternate_size.set(size);
    block.frame.alternate_flags.set(0);
}

/// For a thread that had a stack before the engine knew it.
pub(crate) fn adopt_alternate_stack(block: &ThreadBlock) {
    remember(block, &get());
}

/// The program calls sigaltstack(`new`): remember it. The call itself is executed natively, as the
/// kernel looks at the stack pointer.
pub(crate) fn note(block: &ThreadBlock, new: usize) {
    let frame = &block.frame;
    let offset = frame.rsp.get().wrapping_sub(frame.alternate_base.get());
    if new == 0 || offset < frame.alternate_size.get() {
        return; // a question, or EPERM
    }
    if let Ok(stack) = user::read::<AlternateStack>(new) {
        remember(block, &stack);
    }
}

/// The hook was entered on the alternate stack, with all signals blocked: take it from the kernel,
/// then let signals in again.
#[cold]
pub(crate) fn take_away(block: &ThreadBlock) {
    let frame = &block.frame;
    frame.alternate_held.set(0);
    let stack = get();
    let is_on = frame.rsp.get().wrapping_sub(stack.base) < stack.size;
    if stack.flags & (SS_DISABLE | SS_AUTODISARM) == 0 && is_on {
        set(&NONE);
        frame.alternate_base.set(stack.base);
        frame.alternate_size.set(stack.size);
        let flags = stack.flags & !(SS_ONSTACK | SS_DISABLE);
        frame.alternate_flags.set(flags as usize);
        frame.pending.fetch_or(ALTERNATE_STACK, Relaxed);
    }
    set_mask(frame.alternate_mask.get() as u64);
}
