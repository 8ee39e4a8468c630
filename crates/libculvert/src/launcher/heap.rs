//! Memory of a program that lives for a millisecond: given out, never taken back.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use culvert_sys::PAGE;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of};

/// Zeroed data, of which only what is used costs anything. It is little, for RLIMIT_DATA counts all
/// of it when the program starts.
const SIZE: usize = 128 << 10;
/// Part of it, for what is done after a failure.
const RESERVE: usize = 32 << 10;
/// What is asked of the kernel at once when that is used up.
const MORE: usize = 1 << 20;

#[repr(align(4096))]
struct Memory(UnsafeCell<[u8; SIZE]>);

// SAFETY: each part is given out once.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([0; SIZE]));
/// The addresses that are free; none before the first use.
static FREE: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

fn start() -> usize {
    MEMORY.0.get() as usize
}

/// Gives out the reserve.
pub fn start_anew() {
    FREE.store(start() + SIZE - RESERVE, Relaxed);
    END.store(start() + SIZE, Relaxed);
}

/// Takes `layout` from what is free.
fn take(layout: Layout) -> Option<usize> {
    let at = FREE
        .load(Relaxed)
        .checked_next_multiple_of(layout.align())?;
    let end = at.checked_add(layout.size())?;
    (end <= END.load(Relaxed)).then(|| {
        FREE.store(end, Relaxed);
        at
    })
}

/// Asks the kernel for memory in which `layout` has room.
fn more(layout: Layout) -> Option<()> {
    let least = layout.size().checked_add(layout.align())?;
    let size = least.max(MORE).checked_next_multiple_of(PAGE)?;
    let pages = Mapping::new(Of::Nothing, size, Protection::READ | Protection::WRITE).ok()?;
    let pages = pages.leak() as usize;
    FREE.store(pages, Relaxed);
    END.store(pages + size, Relaxed);
    Some(())
}

struct Heap;

// SAFETY: parts of memory that nobody else has, aligned as asked; there is one thread.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if FREE.load(Relaxed) == 0 {
            FREE.store(start(), Relaxed);
            END.store(start() + SIZE - RESERVE, Relaxed);
        }
        let taken = take(layout).or_else(|| more(layout).and_then(|()| take(layout)));
        taken.map_or(core::ptr::null_mut(), |at| at as *mut u8)
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise. Nothing was there before.
        unsafe { self.alloc(layout) }
    }
}

#[global_allocator]
static HEAP: Heap = Heap;
