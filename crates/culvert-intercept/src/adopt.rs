//! A block for a thread that comes to its first hook.

use crate::{
    delivery::alternate,
    quiesce,
    signal::set_mask,
    thread::{self, OUTSIDE, ThreadBlock},
};
use core::sync::atomic::Ordering::Relaxed;

/// The block of the calling thread, whose GS base is the program's (wasm2c's compiled modules, as
/// in Firefox, set it by `wrgsbase`, which nobody sees).
fn by_fs_base() -> Option<&'static ThreadBlock> {
    let fs = thread::fs_base();
    let mut found =
        thread::all().filter(|block| fs != 0 && block.is_used() && block.fs.load(Relaxed) == fs);
    let block = found.next()?;
    // Not of two, as processes that share memory may have.
    (found.next().is_none() && block.frame.state.load(Relaxed) == OUTSIDE).then_some(block)
}

/// Finds a block for a thread that the engine has not seen yet: one that was there before it, or
/// was made by code that is not patched. Called on the program's stack; returns 0 when there is no
/// memory, and the call is then executed without a hook.
pub(crate) extern "C" fn adopt() -> usize {
    let base = thread::gs_base();
    if base != 0 {
        if let Some(block) = thread::own() {
            return (block.frame.state.load(Relaxed) == OUTSIDE) as usize;
        }
        let Some(block) = by_fs_base() else {
            return 0;
        };
        // Locks of ours outside hooks would be counted in the program's memory.
        culvert_sys::waits::end();
        // A signal handler that comes in between finds a consistent block, too: its first hook
        // gives the base back.
        block.frame.claimed_gs.set(base);
        thread::set_gs_base(block.address());
        return 1;
    }
    // Signals wait, so that no handler of this thread comes here a second time meanwhile.
    let mask = set_mask(!0);
    let block = if thread::gs_base() == 0 {
        // Not by its FS base: a thread that found no memory for a block may have its maker's.
        quiesce::before_thread(false);
        thread::take()
    } else {
        thread::own()
    };
    if let Some(block) = block {
        block.fs.store(thread::fs_base(), Relaxed);
        alternate::adopt_alternate_stack(block);
        thread::set_gs_base(block.address());
    }
    set_mask(mask);
    block.is_some() as usize
}
