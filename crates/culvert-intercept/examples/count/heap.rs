//! Memory for code inside hooks, which must not come from the program's malloc: that may be locked
//! by the very thread that made the call, or by one that waits for all hooks to end because it
//! forks.

use core::{
    alloc::{GlobalAlloc, Layout},
    ptr::null_mut,
};
use culvert_sys::{nr, sync::Mutex, syscall};

/// Blocks of powers of two, from lists of free ones; whole mappings from 1 MiB on.
pub struct Heap(Mutex<[usize; CLASSES]>);

const CLASSES: usize = 20;
const CHUNK: usize = 1 << 20;

impl Heap {
    /// An empty heap.
    pub const fn new() -> Self {
        Self(Mutex::new([0; CLASSES]))
    }
}

fn map(size: usize) -> *mut u8 {
    // SAFETY: fresh memory, readable and writable, private and anonymous.
    unsafe { syscall::call(nr::MMAP, [0, size, 3, 0x22, usize::MAX, 0]) }
        .map_or(null_mut(), |address| address as *mut u8)
}

fn class(layout: Layout) -> usize {
    layout
        .size()
        .max(layout.align())
        .max(16)
        .next_power_of_two()
        .trailing_zeros() as usize
}

// SAFETY: a block is on its list or with its owner, never both; the lock lets one thread in at a
// time; blocks are aligned to their size.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let class = class(layout);
        if class >= CLASSES {
            return map(layout.size());
        }
        let mut free = self.0.lock();
        if free[class] == 0 {
            let chunk = map(CHUNK) as usize;
            if chunk == 0 {
                return null_mut();
            }
            // Mappings are aligned to pages only: blocks begin at multiples of their size.
            let size = 1 << class;
            let mut block = chunk.next_multiple_of(size);
            while block + size <= chunk + CHUNK {
                // SAFETY: inside the chunk.
                unsafe { (block as *mut usize).write(free[class]) };
                free[class] = block;
                block += size;
            }
        }
        let block = free[class] as *mut usize;
        // SAFETY: the first free block, which holds the address of the next.
        free[class] = unsafe { block.read() };
        block.cast()
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let class = class(layout);
        if class >= CLASSES {
            // SAFETY: a mapping of its own.
            let _ = unsafe { syscall::call(nr::MUNMAP, [block as usize, layout.size()]) };
            return;
        }
        let mut free = self.0.lock();
        // SAFETY: the block is ours again.
        unsafe { block.cast::<usize>().write(free[class]) };
        free[class] = block as usize;
    }
}
