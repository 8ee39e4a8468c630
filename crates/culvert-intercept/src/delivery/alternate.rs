//! The alternate signal stack (sigaltstack(2)).
//!
//! The kernel puts a frame at the top of the alternate stack unless the stack pointer lies in it
//! already. Inside a hook it lies on the hook stack; so, when the program is on its alternate stack
//! (it calls read() from a handler, say), a second signal would overwrite the frames of the first.
//! For the duration of such a hook the alternate stack is taken from the kernel.

use super::context::AlternateStack;
use crate::{
    signal::set_mask,
    thread::{ALTERNATE_STACK, ThreadBlock},
    user,
};
use core::sync::atomic::Ordering::Relaxed;
use culvert_sys::{nr, syscall};

const SS_DISABLE: i32 = 2;
const SS_ONSTACK: i32 = 1;
/// The kernel itself takes the stack away while a handler runs on it.
const SS_AUTODISARM: i32 = i32::MIN;

// SAFETY: numbers.
unsafe impl culvert_sys::plain::Plain for AlternateStack {}

fn get() -> AlternateStack {
    let mut stack = AlternateStack {
        base: 0,
        flags: SS_DISABLE,
        size: 0,
    };
    // SAFETY: writes the structure.
    let _ = unsafe { syscall::call(nr::SIGALTSTACK, [0, (&raw mut stack) as usize]) };
    stack
}

pub(crate) fn set(stack: &AlternateStack) {
    // SAFETY: reads the structure.
    let _ = unsafe { syscall::call(nr::SIGALTSTACK, [core::ptr::from_ref(stack) as usize, 0]) };
}

fn remember(block: &ThreadBlock, stack: &AlternateStack) {
    let used = stack.flags & (SS_DISABLE | SS_AUTODISARM) == 0;
    // SAFETY: the thread's own frame, in a hook of its own or before its first.
    let frame = unsafe { &mut *block.frame.get() };
    frame.alternate_base = stack.base;
    frame.alternate_size = if used { stack.size } else { 0 };
    frame.alternate_flags = 0;
}

/// For a thread that had a stack before the engine knew it.
pub(crate) fn adopt_alternate_stack(block: &ThreadBlock) {
    remember(block, &get());
}

/// The program calls sigaltstack(`new`): remember it. The call itself is executed natively, as the
/// kernel looks at the stack pointer.
pub(crate) fn note(block: &ThreadBlock, new: usize) {
    // SAFETY: the thread's own frame.
    let frame = unsafe { &*block.frame.get() };
    if new == 0 || frame.rsp.wrapping_sub(frame.alternate_base) < frame.alternate_size {
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
    // SAFETY: the thread's own frame.
    let frame = unsafe { &mut *block.frame.get() };
    frame.alternate_held = 0;
    let stack = get();
    let is_on = frame.rsp.wrapping_sub(stack.base) < stack.size;
    if stack.flags & (SS_DISABLE | SS_AUTODISARM) == 0 && is_on {
        set(&AlternateStack {
            base: 0,
            flags: SS_DISABLE,
            size: 0,
        });
        frame.alternate_base = stack.base;
        frame.alternate_size = stack.size;
        frame.alternate_flags = stack.flags & !(SS_ONSTACK | SS_DISABLE);
        block.pending().fetch_or(ALTERNATE_STACK, Relaxed);
    }
    set_mask(frame.alternate_mask);
}
