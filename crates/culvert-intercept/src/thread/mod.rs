//! What the engine keeps for each thread: a block that the GS base points to, and the stack that
//! hooks run on.
//!
//! The GS base is free on x86-64 Linux: libcs use FS. A thread that has none gets a block at its
//! first hook (`adopt`); a thread or process that is made by an intercepted clone gets it before it
//! runs. Blocks are never unmapped: a block whose thread has ended is used again.

mod clone_state;
mod frame;

pub(crate) use clone_state::{InProgress, Kept, NO_BLOCK};
pub(crate) use frame::{
    ALTERNATE_STACK, BOUNDARY, Frame, INSIDE, OUTSIDE, Restart, SIGNALS, Wait, Word,
};

use crate::{
    seccomp,
    signal::{
        actions::{self, Actions},
        needed::Needed,
        recorded::Recorded,
    },
};
use core::{
    arch::asm,
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering::*},
};
use culvert_sys::PAGE;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::sync::AtomicRef;

/// Bytes of a hook stack; touched lazily, so most of it never exists.
const STACK: usize = 256 << 10;

/// A thread's block. The GS base points to it. All zeroes: one that nobody owns.
#[repr(C)]
pub struct ThreadBlock {
    pub(crate) frame: Frame,
    /// Nonzero while the thread, though inside a hook, waits where a fork may go on (`wait`,
    /// `quiesce`).
    pub(crate) waits: AtomicU32,
    /// Nonzero while the thread waits in a call with nothing held (`culvert_sys::waits`): a fork
    /// may go on, whoever moves descriptors may not.
    pub(crate) away: AtomicU32,
    /// What it holds (`culvert_sys::waits`).
    pub(crate) holds: AtomicU32,
    /// How often vfork was called without its child having gone yet: nonzero means that the child
    /// is running.
    pub(crate) vforks: AtomicU32,
    /// Signal actions as this process set them: the process's own table, or that of a child that
    /// shares memory only.
    pub(crate) actions: AtomicRef<Actions>,
    /// SIGSEGV, SIGBUS and SIGILL as the program has blocked them.
    pub(crate) needed: Needed,
    /// A mask, or pselect6's pair and a mask, lent to the kernel instead of the program's.
    pub(crate) lent: [Word; 3],
    /// How the clone in progress was asked for.
    pub(crate) clone: InProgress,
    /// The seccomp filters that the thread has installed or inherited.
    pub(crate) filters: seccomp::Chain,
    /// The thread's FS base, which libcs give each thread for itself: how its block is found when
    /// the program uses the GS base. 0: not known.
    pub(crate) fs: AtomicUsize,
    next: AtomicRef<ThreadBlock>,
    /// For the embedder; zero in a new thread. A forked child has its parent's values, a vfork
    /// child *shares* them with its parent.
    pub slot: [AtomicUsize; 4],
    /// For the embedder: which table of descriptors this is one of. As `slot`, but a new thread
    /// that shares its maker's table has its maker's value.
    pub table: AtomicUsize,
    /// For the embedder: whose rights the thread has. As `slot`, but a new thread has its maker's
    /// value.
    pub credentials: AtomicUsize,
    /// Signals that came while a hook was running. Last, for it is large and seldom used: the rest
    /// is in one page.
    pub(crate) recorded: Recorded,
}

impl core::fmt::Debug for ThreadBlock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ThreadBlock")
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

impl ThreadBlock {
    const fn new() -> Self {
        // SAFETY: atomic words, none of which is there for being another than 0.
        unsafe { core::mem::zeroed() }
    }

    /// Whether this thread runs as a vfork child: it shares memory, and this very block, with its
    /// parent, but not the table of descriptors.
    pub fn is_vfork_child(&self) -> bool {
        self.vforks.load(Relaxed) != 0
    }

    /// The signal actions that hold for it.
    pub(crate) fn actions(&self) -> &'static Actions {
        self.actions.get().unwrap_or_else(actions::of_process)
    }

    /// That of a thread inside a hook, which is in no list.
    #[cfg(test)]
    pub(crate) fn inside() -> Self {
        let block = Self::new();
        block.frame.used.store(1, Relaxed);
        block.frame.state.store(INSIDE, Relaxed);
        block
    }

    /// Whether `rsp` is on its hook stack, something of which is used.
    pub(crate) fn is_on_hook_stack(&self, rsp: usize) -> bool {
        let top = self.frame.stack.get();
        (top - STACK..top).contains(&rsp)
    }

    /// Whether there is room on its hook stack below `rsp` for a mend of images, which takes a
    /// quarter of this.
    pub(crate) fn has_room_below(&self, rsp: usize) -> bool {
        const ROOM: usize = 32 << 10;
        let top = self.frame.stack.get();
        (top - STACK + ROOM..=top).contains(&rsp)
    }

    /// Whether a thread owns it.
    pub(crate) fn is_used(&self) -> bool {
        self.frame.used.load(Acquire) != 0
    }

    /// Its address, as it stands in the GS base.
    pub(crate) fn address(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// Makes an owned block that of a new thread.
    fn prepare(&self) {
        let frame = &self.frame;
        frame.this.set(self.address());
        frame.alternate_size.set(0);
        frame.alternate_held.set(0);
        frame.program_gs.set(0);
        frame.claimed_gs.set(0);
        frame.state.store(OUTSIDE, Relaxed);
        frame.pending.store(0, Relaxed);
        self.recorded.forget();
        self.needed.inherit(0);
        self.fs.store(0, Relaxed);
        self.waits.store(0, Relaxed);
        self.away.store(0, Relaxed);
        self.holds.store(0, Relaxed);
        self.vforks.store(0, Relaxed);
        self.actions.set(Some(actions::of_process()));
        self.filters.set(seccomp::COMMON.get());
        for slot in &self.slot {
            slot.store(0, Relaxed);
        }
        self.table.store(0, Relaxed);
        self.credentials.store(0, Relaxed);
    }
}

#[repr(C, align(4096))]
struct FirstStack(UnsafeCell<[u8; STACK]>);
// SAFETY: used as a stack by one thread at a time.
unsafe impl Sync for FirstStack {}

static FIRST: ThreadBlock = ThreadBlock::new();
/// An embedder puts this section first among its data that is written, right behind what is only
/// read once it is relocated: that is the stack's guard (`data.ld` of libculvert.so).
#[unsafe(link_section = ".data.culvert_stack")]
static FIRST_STACK: FirstStack = FirstStack(UnsafeCell::new([0; STACK]));

/// All blocks there are, the newest first.
static ALL: AtomicRef<ThreadBlock> = AtomicRef::new();
/// How many of them have an owner.
static USED: AtomicUsize = AtomicUsize::new(0);
/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// All blocks, used or not.
pub(crate) fn all() -> impl Iterator<Item = &'static ThreadBlock> {
    core::iter::successors(ALL.get(), |block| block.next.get())
}

/// The block at `address`.
pub(crate) fn at(address: usize) -> Option<&'static ThreadBlock> {
    all().find(|block| block.address() == address)
}

/// How many threads have a block.
pub(crate) fn used() -> usize {
    USED.load(SeqCst)
}

fn link(block: &'static ThreadBlock) {
    ALL.push(block, &block.next);
    COUNT.fetch_add(1, Relaxed);
}

/// Makes [`take`] fail.
#[cfg(test)]
pub(crate) static REFUSE: core::sync::atomic::AtomicBool =
    core::sync::atomic::AtomicBool::new(false);

/// A block for a new thread; `None` without memory.
pub(crate) fn take() -> Option<&'static ThreadBlock> {
    #[cfg(test)]
    if REFUSE.load(Relaxed) {
        return None;
    }
    let block = take_used().or_else(make)?;
    USED.fetch_add(1, SeqCst);
    block.prepare();
    Some(block)
}

fn take_used() -> Option<&'static ThreadBlock> {
    if COUNT.load(Relaxed) <= USED.load(Relaxed) {
        return None;
    }
    let take = |block: &&ThreadBlock| {
        let used = &block.frame.used;
        used.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    };
    all().find(take)
}

fn make() -> Option<&'static ThreadBlock> {
    let length = PAGE + STACK + size_of::<ThreadBlock>().next_multiple_of(PAGE);
    let memory = Mapping::new(Of::Nothing, length, Protection::READ | Protection::WRITE).ok()?;
    // The lowest page becomes the guard below the stack, the block lies above the stack.
    let _ = memory.guard(PAGE);
    let top = memory.leak().wrapping_add(PAGE + STACK);
    // SAFETY: there for good, with room for a block, which zeroes make.
    let block = unsafe { &*top.cast::<ThreadBlock>() };
    block.frame.stack.set(top as usize);
    block.frame.used.store(1, Relaxed);
    link(block);
    Some(block)
}

/// Makes the first block that of the calling thread, which has none.
pub(crate) fn take_first() -> &'static ThreadBlock {
    FIRST.frame.stack.set(first_stack());
    FIRST.frame.used.store(1, Relaxed);
    link(&FIRST);
    USED.fetch_add(1, SeqCst);
    FIRST.prepare();
    FIRST.fs.store(fs_base(), Relaxed);
    &FIRST
}

/// Where the first thread's hook stack begins, which grows down. Nobody uses it until that thread
/// makes a call that is intercepted, so its start may run there.
pub fn first_stack() -> usize {
    FIRST_STACK.0.get() as usize + STACK
}

/// Gives up a block whose thread never came to be.
pub(crate) fn give_back(block: &ThreadBlock) {
    USED.fetch_sub(1, SeqCst);
    block.frame.state.store(OUTSIDE, Relaxed);
    block.frame.used.store(0, Release);
}

/// The first half of giving up one's own block: it is counted as free, but `used` stays set until
/// the last instruction of the thread.
pub(crate) fn about_to_end() {
    USED.fetch_sub(1, SeqCst);
}

/// In a forked child: all blocks but `own` have lost their threads.
pub(crate) fn only_one_left(own: &ThreadBlock) {
    for block in all() {
        if !core::ptr::eq(block, own) {
            block.frame.used.store(0, Relaxed);
            block.frame.state.store(OUTSIDE, Relaxed);
        }
    }
    USED.store(1, SeqCst);
}

/// Sets the GS base of the calling thread.
pub(crate) fn set_gs_base(base: usize) {
    // SAFETY: FSGSBASE was found by `install`; nothing but the engine uses the GS base.
    unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
}

/// The GS base of the calling thread.
pub(crate) fn gs_base() -> usize {
    let base;
    // SAFETY: FSGSBASE was found by `install`.
    unsafe { asm!("rdgsbase {}", out(reg) base, options(nostack, preserves_flags, nomem)) };
    base
}

/// The FS base of the calling thread.
pub(crate) fn fs_base() -> usize {
    let base;
    // SAFETY: FSGSBASE was found by `install`.
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nostack, preserves_flags, nomem)) };
    base
}

/// The calling thread's block, when the GS base is ours; fault-checked, as a program may have put
/// anything there.
pub(crate) fn own() -> Option<&'static ThreadBlock> {
    let base = gs_base();
    if base == 0 {
        return None;
    }
    let this = crate::user::read::<usize>(base);
    // SAFETY: only blocks begin with their own address.
    (this == Ok(base)).then(|| unsafe { &*(base as *const ThreadBlock) })
}

/// The block of the thread that is in a hook.
#[inline]
pub fn current() -> &'static ThreadBlock {
    match gs_base() {
        // Outside of hooks: in tests, and in an embedder that is starting.
        0 => &FIRST,
        // SAFETY: inside a hook the GS base is a block, whose first word is its own address.
        base => unsafe { &*(base as *const ThreadBlock) },
    }
}
