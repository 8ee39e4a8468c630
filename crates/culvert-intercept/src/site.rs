//! What a stub hands to the entry: one record for each patched system-call site.

use culvert_sys::plain::{Packed, Plain};

/// A patched system-call site. A stub enters the engine with its address in r11.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteRecord {
    /// Where the program goes on after a call that was answered without the kernel.
    pub resume: usize,
    /// Where the real system call is executed, with the number in rax; from there on everything
    /// continues natively.
    pub forward: usize,
    /// The program's own system-call instruction.
    pub instruction: usize,
    /// The first byte of the patched sequence: executing from here makes the call again.
    pub restart: usize,
    /// The number, where it is part of the instructions; else -1.
    pub number: i64,
}

// SAFETY: numbers.
unsafe impl Plain for SiteRecord {}
// SAFETY: words, and nothing between them.
unsafe impl Packed for SiteRecord {}

impl SiteRecord {
    /// Behind the program's own instruction: where the kernel says that the call came from.
    pub(crate) fn behind(&self) -> usize {
        self.instruction.wrapping_add(crate::sites::SYSCALL.len())
    }

    /// Whether that instruction is executed in the stub, so that the kernel says another place.
    pub(crate) fn is_moved(&self) -> bool {
        self.resume != self.behind()
    }
}
