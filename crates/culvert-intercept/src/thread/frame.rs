//! What the assembly of `entry` knows of a thread: the program's registers while a hook runs.

use crate::SiteRecord;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// [`Frame::state`]: the program is running.
pub(crate) const OUTSIDE: u32 = 0;
/// [`Frame::state`]: a hook is running; asynchronous signals are recorded.
pub(crate) const INSIDE: u32 = 1;
/// [`Frame::state`]: at a system call of the engine that the program's signals may interrupt, all
/// of the program's registers being in the frame.
pub(crate) const BOUNDARY: u32 = 2;

/// [`Frame::pending`]: signals were recorded.
pub(crate) const SIGNALS: u32 = 1;
/// [`Frame::pending`]: the alternate stack is to be given back to the kernel.
pub(crate) const ALTERNATE_STACK: u32 = 2;

/// A word that a thread, its signal handlers and the assembly read and write, each by a plain
/// instruction.
#[repr(transparent)]
pub(crate) struct Word(AtomicUsize);

impl Word {
    #[inline(always)]
    pub fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    #[inline(always)]
    pub fn set(&self, value: usize) {
        self.0.store(value, Relaxed);
    }
}

/// The xmm registers, where `movaps` may put them.
#[repr(C, align(16))]
pub(crate) struct Vectors([Word; 32]);

/// The part of a block that the assembly of `entry.rs` knows: the registers of the program while a
/// hook runs, and the state of the hook. All zeroes: that of a thread outside.
#[repr(C, align(64))]
pub(crate) struct Frame {
    /// Its own address: how the entry recognises that the GS base is ours.
    pub this: Word,
    /// Top of the hook stack.
    pub stack: Word,
    /// [`OUTSIDE`], [`INSIDE`] or [`BOUNDARY`].
    pub state: AtomicU32,
    /// What the way out has to do besides restoring registers: [`SIGNALS`], [`ALTERNATE_STACK`].
    pub pending: AtomicU32,
    /// The program's registers, from here to `vectors`.
    pub rsp: Word,
    /// The address of the site's [`SiteRecord`].
    pub record: Word,
    /// Carry, parity, adjust, zero and sign as `lahf` has them in bits 8 to 15, overflow in bit 0.
    pub flags: Word,
    /// All flags; the six above are not the program's here.
    pub rflags: Word,
    /// rdi, rsi, rdx, r10, r8, r9.
    pub saved: [Word; 6],
    /// The call, which `dispatch` is given as a [`Call`](crate::Call) to read and to change.
    pub call: [Word; 7],
    /// What goes into rax on the way out.
    pub result: Word,
    /// Where the program goes on.
    pub resume: Word,
    /// The GS base that the way out gives back to a program that uses it itself; 0: ours stays.
    pub program_gs: Word,
    /// The same, from the entry to `dispatch`.
    pub claimed_gs: Word,
    pub mxcsr: Word,
    pub mxcsr_now: Word,
    pub vectors: Vectors,
    /// The alternate signal stack that the program has set; `alternate_size` is 0 without one.
    pub alternate_base: Word,
    pub alternate_size: Word,
    /// The signal mask before all signals were blocked to take the alternate stack away.
    pub alternate_mask: Word,
    /// Nonzero: all signals are blocked since the entry, because the program runs on its alternate
    /// stack.
    pub alternate_held: Word,
    /// Nonzero while a thread owns this block.
    pub used: AtomicU32,
    /// The signal mask that the way out restores when signals were recorded.
    pub mask: Word,
    /// The block of the child that a clone is about to make.
    pub child: Word,
    /// The call's number as the program made it.
    pub number: Word,
    /// A [`Restart`]: what is decided about making the call again when the pending signals are
    /// known.
    pub restart: Word,
    /// A [`Wait`]: how far the hook has come with what may wait.
    pub wait: Word,
    /// The flags of the alternate stack.
    pub alternate_flags: Word,
    /// Nonzero: the kernel has refused the program's call (SECCOMP_RET_TRAP of a filter that
    /// `filters` does not know).
    pub refused: Word,
}

/// How far a hook has come with `wait::interruptible`.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// It has not come there.
    None,
    /// Signals came before it began to wait.
    Preceded,
    /// It has begun to wait.
    Begun,
}

/// What a hook that ended with [`Outcome::Restart`](crate::Outcome::Restart) is waiting for.
#[derive(Clone, Copy)]
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
        unsafe { &*(self.record.get() as *const SiteRecord) }
    }

    /// Takes over the program's registers, the call that it makes, and its alternate stack.
    pub fn copy_from(&self, other: &Self) {
        let words = [
            (&self.rsp, &other.rsp),
            (&self.record, &other.record),
            (&self.flags, &other.flags),
            (&self.rflags, &other.rflags),
            (&self.number, &other.number),
            (&self.program_gs, &other.program_gs),
            (&self.mxcsr, &other.mxcsr),
            (&self.alternate_base, &other.alternate_base),
            (&self.alternate_size, &other.alternate_size),
            (&self.alternate_flags, &other.alternate_flags),
        ];
        let saved = self.saved.iter().zip(&other.saved);
        let vectors = self.vectors.0.iter().zip(&other.vectors.0);
        for (to, from) in words.into_iter().chain(saved).chain(vectors) {
            to.set(from.get());
        }
    }
}
