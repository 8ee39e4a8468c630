//! What the assembly of `entry` knows of a thread: the program's registers while a hook runs.

use crate::{Call, SiteRecord};
use core::sync::atomic::AtomicU32;

/// [`Frame::state`]: the program is running.
pub(crate) const OUTSIDE: u32 = 0;
/// [`Frame::state`]: a hook is running; asynchronous signals are recorded.
pub(crate) const INSIDE: u32 = 1;
/// [`Frame::state`]: at a system call of the engine that the program's signals may interrupt, all of the program's registers being in the frame.
pub(crate) const BOUNDARY: u32 = 2;

/// [`Frame::pending`]: signals were recorded.
pub(crate) const SIGNALS: u32 = 1;
/// [`Frame::pending`]: the alternate stack is to be given back to the kernel.
pub(crate) const ALTERNATE_STACK: u32 = 2;

/// An xmm register, where `movaps` may put it.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
pub(crate) struct Vector(pub [u64; 2]);

/// The part of a block that the assembly of `entry.rs` knows: the registers of the program while a
/// hook runs, and the state of the hook.
#[repr(C, align(64))]
pub(crate) struct Frame {
    /// Its own address: how the entry recognises that the GS base is ours.
    pub this: usize,
    /// Top of the hook stack.
    pub stack: usize,
    /// [`OUTSIDE`], [`INSIDE`] or [`BOUNDARY`].
    pub state: AtomicU32,
    /// What the way out has to do besides restoring registers: [`SIGNALS`], [`ALTERNATE_STACK`].
    pub pending: AtomicU32,
    /// The program's registers, from here to `vectors`.
    pub rsp: usize,
    pub record: *const SiteRecord,
    /// Carry, parity, adjust, zero and sign as `lahf` has them in bits 8 to 15, overflow in bit 0.
    pub flags: usize,
    /// All flags; the six above are not the program's here.
    pub rflags: usize,
    /// rdi, rsi, rdx, r10, r8, r9.
    pub saved: [usize; 6],
    /// The call, for the handler to read and to change.
    pub call: Call,
    /// What goes into rax on the way out.
    pub result: isize,
    /// Where the program goes on.
    pub resume: usize,
    /// The GS base that the way out gives back to a program that uses it itself; 0: ours stays.
    pub program_gs: usize,
    /// The same, from the entry to `dispatch`.
    pub claimed_gs: usize,
    pub mxcsr: u32,
    pub mxcsr_now: u32,
    pub vectors: [Vector; 16],
    /// The alternate signal stack that the program has set; `alternate_size` is 0 without one.
    pub alternate_base: usize,
    pub alternate_size: usize,
    /// The signal mask before all signals were blocked to take the alternate stack away.
    pub alternate_mask: u64,
    /// Nonzero: all signals are blocked since the entry, because the program runs on its alternate
    /// stack.
    pub alternate_held: u32,
    /// Nonzero while a thread owns this block.
    pub used: AtomicU32,
    /// The signal mask that the way out restores when signals were recorded.
    pub mask: u64,
    /// The block of the child that a clone is about to make.
    pub child: usize,
    /// The call's number as the program made it.
    pub number: usize,
    /// What is decided about making the call again when the pending signals are known.
    pub restart: Restart,
    /// How far the hook has come with what may wait.
    pub wait: Wait,
    /// The flags of the alternate stack.
    pub alternate_flags: i32,
    /// Nonzero: the kernel has refused the program's call (SECCOMP_RET_TRAP of a filter that
    /// `filters` does not know).
    pub refused: u32,
}

/// How far a hook has come with [`crate::wait::interruptible`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// It has not come there.
    None,
    /// Signals came before it began to wait.
    Preceded,
    /// It has begun to wait.
    Begun,
}

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

impl Frame {
    /// The record of the site that the thread came from.
    #[inline]
    pub fn record(&self) -> &'static SiteRecord {
        // SAFETY: set at the entry of each hook; records live for ever.
        unsafe { &*self.record }
    }
}
