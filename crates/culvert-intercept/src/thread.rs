//! What the engine keeps for each thread.

use core::sync::atomic::AtomicUsize;

/// A thread's block. The GS base points to it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ThreadBlock {
    /// For the embedder; zero in a new thread. A forked child has its parent's values, a vfork child *shares* them with its parent.
    pub slot: [AtomicUsize; 4],
}

impl ThreadBlock {
    /// Whether this thread runs as a vfork child: it shares memory, and this very block, with its parent, but not the table of descriptors.
    pub fn is_vfork_child(&self) -> bool {
        false
    }
}

static FIRST: ThreadBlock = ThreadBlock { slot: [const { AtomicUsize::new(0) }; 4] };

/// The block of the thread that is in a hook.
#[inline]
pub fn current() -> &'static ThreadBlock {
    &FIRST
}
