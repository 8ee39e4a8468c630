//! System calls that may wait long, and what a thread holds meanwhile.
//!
//! A fork copies the memory, not the threads. So it waits until no other thread is in the middle of
//! something: whatever lock such a thread held, nobody in the child would ever release it. A thread
//! that waits in [`call`] and holds nothing is in the middle of nothing. Each thread counts what it
//! holds, in its block of the engine, which the GS base leads to: each `sync::Mutex` by itself,
//! other locks by a [`Holding`] beside them.

use crate::{Errno, atomic_ref::AtomicRef, syscall};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// What a thread does around a call that may wait.
pub struct Seam {
    /// The calling thread holds nothing of which its [`Holding`]s tell: others may fork from here
    /// on, where this says so. False: they may not.
    pub leave: fn() -> bool,
    /// After [`Seam::leave`] has said yes: waits until nobody forks.
    pub come_back: fn(),
}

static SEAM: AtomicRef<Seam> = AtomicRef::new();

/// Where a thread's count lies, from its GS base on. 0: nobody counts.
static PLACE: AtomicUsize = AtomicUsize::new(0);

/// The GS base may be somebody else's.
static ENDED: AtomicBool = AtomicBool::new(false);

/// From here on threads count what they hold, at `place` from their GS base on, where that is not
/// 0; and `seam` is asked around calls that wait.
///
/// # Safety
/// Each thread that uses locks has a GS base of 0, or 32 bits of its own at that place. No lock is
/// held.
pub unsafe fn begin(seam: &'static Seam, place: usize) {
    if !ENDED.load(Relaxed) {
        PLACE.store(place, Relaxed);
        SEAM.set(Some(seam));
    }
}

/// No thread counts any more, nor leaves.
pub fn end() {
    ENDED.store(true, Relaxed);
    SEAM.set(None);
    PLACE.store(0, Relaxed);
}

/// Adds `by` to what the calling thread holds.
#[inline(always)]
pub(crate) fn add(by: i32) {
    let place = PLACE.load(Relaxed);
    if place != 0 {
        // SAFETY: the promise of `begin`. One instruction: a signal handler that comes before or
        // after it leaves the count as it was.
        unsafe {
            asm!("rdgsbase {base}", "test {base}, {base}", "jz 2f", "add dword ptr [{base} + \
                {place}], {by:e}", "2:",
                base = out(reg) _, place = in(reg) place, by = in(reg) by, options(nostack));
        }
    }
}

/// Something that is no `sync::Mutex`, and must not be copied by a fork as it is: while this
/// exists, a fork waits for the thread that made it, and that drops it.
#[derive(Debug)]
pub struct Holding(core::marker::PhantomData<*const ()>);

impl Holding {
    /// One more.
    #[inline]
    #[allow(clippy::new_without_default)] // a value by default would hold forks up unseen
    pub fn new() -> Self {
        add(1);
        Self(core::marker::PhantomData)
    }
}

impl Drop for Holding {
    #[inline]
    fn drop(&mut self) {
        add(-1);
    }
}

/// [`syscall::call`] of a call that may wait long, as for a network or another process. Other
/// threads may fork meanwhile, if this one holds no lock: neither a `sync::Mutex` nor another one
/// for which there is a [`Holding`].
///
/// In the child the call never comes back: what belongs to it on the stack, memory and descriptors
/// among it, stays there until the child ends.
///
/// # Safety
/// As [`syscall::call`]. Whatever lock the caller holds is counted.
#[inline]
pub unsafe fn call<const N: usize>(number: usize, args: [usize; N]) -> Result<usize, Errno> {
    let seam = SEAM.get().filter(|seam| (seam.leave)());
    // SAFETY: the caller's promise.
    let answer = unsafe { syscall::call(number, args) };
    if let Some(seam) = seam {
        (seam.come_back)();
    }
    answer
}
