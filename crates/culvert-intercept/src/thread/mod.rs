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
    ALTERNATE_STACK, BOUNDARY, Frame, INSIDE, OUTSIDE, Restart, SIGNALS, Vector, Wait,
};

use crate::{
    Call, seccomp,
    signal::{
        actions::{self, Actions},
        needed::Needed,
        recorded::Recorded,
    },
};
use core::{
    arch::asm,
    cell::UnsafeCell,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*},
};
use culvert_sys::PAGE;
use culvert_sys::{nr, syscall};

/// Bytes of a hook stack; touched lazily, so most of it never exists.
const STACK: usize = 256 << 10;

/// A thread's block. The GS base points to it.
#[repr(C)]
pub struct ThreadBlock {
    pub(crate) frame: UnsafeCell<Frame>,
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
    pub(crate) actions: AtomicPtr<Actions>,
    /// SIGSEGV, SIGBUS and SIGILL as the program has blocked them.
    pub(crate) needed: Needed,
    /// Signals that came while a hook was running.
    pub(crate) recorded: UnsafeCell<Recorded>,
    /// A mask, or pselect6's pair and a mask, lent to the kernel instead of the program's.
    pub(crate) lent: UnsafeCell<[u64; 3]>,
    /// How the clone in progress was asked for.
    pub(crate) clone: UnsafeCell<InProgress>,
    /// The seccomp filters that the thread has installed or inherited.
    pub(crate) filters: seccomp::Chain,
    /// The thread's FS base, which libcs give each thread for itself: how its block is found when
    /// the program uses the GS base. 0: not known.
    pub(crate) fs: AtomicUsize,
    next: AtomicPtr<ThreadBlock>,
    /// For the embedder; zero in a new thread. A forked child has its parent's values, a vfork
    /// child *shares* them with its parent.
    pub slot: [AtomicUsize; 4],
    /// For the embedder: which table of descriptors this is one of. As `slot`, but a new thread
    /// that shares its maker's table has its maker's value.
    pub table: AtomicUsize,
    /// For the embedder: whose rights the thread has. As `slot`, but a new thread has its maker's
    /// value.
    pub credentials: AtomicUsize,
}

// SAFETY: a block belongs to one thread; what others look at (state, waits, used, next) is atomic.
unsafe impl Sync for ThreadBlock {}

impl core::fmt::Debug for ThreadBlock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ThreadBlock")
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

impl ThreadBlock {
    const fn new() -> Self {
        Self {
            frame: UnsafeCell::new(Frame {
                this: 0,
                stack: 0,
                state: AtomicU32::new(OUTSIDE),
                pending: AtomicU32::new(0),
                rsp: 0,
                record: core::ptr::null(),
                flags: 0,
                rflags: 0,
                saved: [0; 6],
                call: Call {
                    number: 0,
                    args: [0; 6],
                },
                result: 0,
                resume: 0,
                program_gs: 0,
                claimed_gs: 0,
                mxcsr: 0,
                mxcsr_now: 0,
                vectors: [Vector([0; 2]); 16],
                alternate_base: 0,
                alternate_size: 0,
                alternate_mask: 0,
                alternate_held: 0,
                used: AtomicU32::new(0),
                mask: 0,
                child: 0,
                number: 0,
                restart: Restart::No,
                wait: Wait::None,
                alternate_flags: 0,
                refused: 0,
            }),
            waits: AtomicU32::new(0),
            away: AtomicU32::new(0),
            holds: AtomicU32::new(0),
            vforks: AtomicU32::new(0),
            actions: AtomicPtr::new(null_mut()),
            needed: Needed::new(),
            recorded: UnsafeCell::new(Recorded::new()),
            lent: UnsafeCell::new([0; 3]),
            clone: UnsafeCell::new(InProgress::NONE),
            filters: seccomp::Chain::new(null_mut()),
            fs: AtomicUsize::new(0),
            next: AtomicPtr::new(null_mut()),
            slot: [const { AtomicUsize::new(0) }; 4],
            table: AtomicUsize::new(0),
            credentials: AtomicUsize::new(0),
        }
    }

    /// Whether this thread runs as a vfork child: it shares memory, and this very block, with its
    /// parent, but not the table of descriptors.
    pub fn is_vfork_child(&self) -> bool {
        self.vforks.load(Relaxed) != 0
    }

    /// The signal actions that hold for it.
    pub(crate) fn actions(&self) -> &'static Actions {
        actions::at(self.actions.load(Relaxed))
    }

    pub(crate) fn state(&self) -> &AtomicU32 {
        // SAFETY: atomic, and inside a block that lives for ever.
        unsafe { &(*self.frame.get()).state }
    }

    pub(crate) fn pending(&self) -> &AtomicU32 {
        // SAFETY: as `state`.
        unsafe { &(*self.frame.get()).pending }
    }

    /// That of a thread inside a hook, which is in no list.
    #[cfg(test)]
    pub(crate) fn inside() -> Self {
        let block = Self::new();
        block.used().store(1, Relaxed);
        block.state().store(INSIDE, Relaxed);
        block
    }

    /// Whether a thread owns it.
    pub(crate) fn is_used(&self) -> bool {
        self.used().load(Acquire) != 0
    }

    fn used(&self) -> &AtomicU32 {
        // SAFETY: as `state`.
        unsafe { &(*self.frame.get()).used }
    }

    /// Makes an owned block that of a new thread.
    fn prepare(&self) {
        let frame = self.frame.get();
        // SAFETY: the caller has just taken the block, so nobody else looks at it; plain fields of
        // a live object.
        unsafe {
            (*frame).this = core::ptr::from_ref(self) as usize;
            (*frame).alternate_size = 0;
            (*frame).alternate_held = 0;
            (*frame).program_gs = 0;
            (*frame).claimed_gs = 0;
            (*self.recorded.get()).forget();
        }
        self.needed.inherit(0);
        self.state().store(OUTSIDE, Relaxed);
        self.pending().store(0, Relaxed);
        self.fs.store(0, Relaxed);
        self.waits.store(0, Relaxed);
        self.away.store(0, Relaxed);
        self.holds.store(0, Relaxed);
        self.vforks.store(0, Relaxed);
        self.actions.store(actions::of_process(), Relaxed);
        self.filters.store(seccomp::common(), Relaxed);
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
static FIRST_STACK: FirstStack = FirstStack(UnsafeCell::new([0; STACK]));

/// All blocks there are, the newest first.
static ALL: AtomicPtr<ThreadBlock> = AtomicPtr::new(null_mut());
/// How many of them have an owner.
static USED: AtomicUsize = AtomicUsize::new(0);
/// How many there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// All blocks, used or not.
pub(crate) fn all() -> impl Iterator<Item = &'static ThreadBlock> {
    let mut next = ALL.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: blocks are never freed.
        let block = unsafe { next.as_ref() }?;
        next = block.next.load(Relaxed);
        Some(block)
    })
}

/// How many threads have a block.
pub(crate) fn used() -> usize {
    USED.load(SeqCst)
}

fn link(block: &'static ThreadBlock) {
    let mut head = ALL.load(Relaxed);
    loop {
        block.next.store(head, Relaxed);
        match ALL.compare_exchange_weak(
            head,
            core::ptr::from_ref(block).cast_mut(),
            Release,
            Relaxed,
        ) {
            Ok(_) => break,
            Err(now) => head = now,
        }
    }
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
    all().find(|block| {
        block
            .used()
            .compare_exchange(0, 1, Acquire, Relaxed)
            .is_ok()
    })
}

fn make() -> Option<&'static ThreadBlock> {
    const PROT_READ_WRITE: usize = 3;
    const MAP_PRIVATE_ANONYMOUS_NORESERVE: usize = 0x2 | 0x20 | 0x4000;
    let head = size_of::<ThreadBlock>().next_multiple_of(PAGE);
    let length = PAGE + STACK + head;
    // SAFETY: a fresh mapping; its lowest page becomes the guard below the stack, the block lies
    // above the stack.
    unsafe {
        let base = syscall::call(
            nr::MMAP,
            [
                culvert_sys::place::hint(length),
                length,
                PROT_READ_WRITE,
                MAP_PRIVATE_ANONYMOUS_NORESERVE,
                usize::MAX,
                0,
            ],
        )
        .ok()?;
        let _ = syscall::call(nr::MPROTECT, [base, PAGE, 0]);
        let block = (base + PAGE + STACK) as *mut ThreadBlock;
        block.write(ThreadBlock::new());
        (*(*block).frame.get()).stack = base + PAGE + STACK;
        (*block).used().store(1, Relaxed);
        let block = &*block;
        link(block);
        Some(block)
    }
}

/// Makes the first block that of the calling thread, which has none.
pub(crate) fn take_first() -> &'static ThreadBlock {
    // SAFETY: called once, before any hook; nobody uses the block yet.
    unsafe { (*FIRST.frame.get()).stack = FIRST_STACK.0.get() as usize + STACK };
    // SAFETY: the lowest page of the stack, as a guard: below it lie other variables.
    let _ = unsafe { syscall::call(nr::MPROTECT, [FIRST_STACK.0.get() as usize, PAGE, 0]) };
    FIRST.used().store(1, Relaxed);
    link(&FIRST);
    USED.fetch_add(1, SeqCst);
    FIRST.prepare();
    FIRST.fs.store(fs_base(), Relaxed);
    &FIRST
}

/// Gives up a block whose thread never came to be.
pub(crate) fn give_back(block: &ThreadBlock) {
    USED.fetch_sub(1, SeqCst);
    block.state().store(OUTSIDE, Relaxed);
    block.used().store(0, Release);
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
            block.used().store(0, Relaxed);
            block.state().store(OUTSIDE, Relaxed);
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
    // SAFETY: inside a hook the GS base is a block, whose first word is its own address. Outside
    // (tests, an embedder that is starting) it need not be.
    unsafe {
        let base = gs_base();
        if base == 0 {
            &FIRST
        } else {
            &*(base as *const ThreadBlock)
        }
    }
}
