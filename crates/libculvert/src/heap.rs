//! The heap of code inside hooks: dlmalloc over pages from the kernel, apart from the program's own
//! malloc.

use core::alloc::{GlobalAlloc, Layout};
use culvert_sys::PAGE;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::{nr, sync::Mutex, syscall};
use dlmalloc::{Allocator, Dlmalloc};

struct Pages;

// SAFETY: whole pages from the kernel, given back whole or in part.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if let Some(address) = first::take(size) {
            return (address, first::SIZE, 0);
        }
        match Mapping::new(Of::Nothing, size, Protection::READ | Protection::WRITE) {
            Ok(pages) => (pages.leak(), size, 0),
            Err(_) => match reserve::take(size) {
                Some(address) => (address, size, 0),
                None => (core::ptr::null_mut(), 0, 0),
            },
        }
    }

    fn remap(&self, address: *mut u8, old: usize, new: usize, _may_move: bool) -> *mut u8 {
        if first::has(address) || reserve::has(address) {
            return core::ptr::null_mut();
        }
        // Never moved: the kernel would choose the place. dlmalloc copies instead.
        // SAFETY: dlmalloc owns the mapping.
        unsafe { syscall::call(nr::MREMAP, [address as usize, old, new, 0]) }
            .map_or(core::ptr::null_mut(), |at| at as *mut u8)
    }

    fn free_part(&self, address: *mut u8, old: usize, new: usize) -> bool {
        if first::has(address) || reserve::has(address) {
            return false;
        }
        // SAFETY: dlmalloc owns the mapping.
        unsafe { syscall::call(nr::MUNMAP, [address as usize + new, old - new]) }.is_ok()
    }

    fn free(&self, address: *mut u8, size: usize) -> bool {
        self.free_part(address, size, 0)
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

/// What the heap begins with, in the library's zeroed data: most programs need no more, and so make
/// no mapping for it. It begins with a page, and ends in one that is used anyway (`data.ld`).
mod first {
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// As much as dlmalloc asks for at least, and room for what it puts at the end.
    pub const SIZE: usize = (64 << 10) + 128;

    #[repr(align(16))]
    struct Memory(UnsafeCell<[u8; SIZE]>);

    // SAFETY: given out once.
    unsafe impl Sync for Memory {}

    static MEMORY: Memory = Memory(UnsafeCell::new([0; SIZE]));
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);

    /// All of it, if it holds `size` bytes and nobody has it.
    pub fn take(size: usize) -> Option<*mut u8> {
        let is_free = size <= SIZE && !IS_TAKEN.swap(true, Relaxed);
        is_free.then(|| MEMORY.0.get().cast())
    }

    /// Whether `address` lies in it.
    pub fn has(address: *mut u8) -> bool {
        (address as usize).wrapping_sub(MEMORY.0.get() as usize) < SIZE
    }
}

/// Memory for when the kernel gives none: a program that has used up its mappings
/// (vm.max_map_count) or its addresses (RLIMIT_AS) natively goes on as long as it asks for nothing,
/// and must do so here. It lies in the library's zeroed data and costs nothing until it is used.
/// What was taken stays dlmalloc's.
mod reserve {
    use super::PAGE;
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    const SIZE: usize = 1 << 20;

    #[repr(align(4096))]
    struct Memory(UnsafeCell<[u8; SIZE]>);

    // SAFETY: each part is given out once.
    unsafe impl Sync for Memory {}

    static MEMORY: Memory = Memory(UnsafeCell::new([0; SIZE]));
    static TAKEN: AtomicUsize = AtomicUsize::new(0);

    /// `size` bytes, whole pages, all zero.
    pub fn take(size: usize) -> Option<*mut u8> {
        let size = size.checked_next_multiple_of(PAGE)?;
        let more = |taken: usize| taken.checked_add(size).filter(|&end| end <= SIZE);
        let at = TAKEN.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(MEMORY.0.get().cast::<u8>().wrapping_add(at))
    }

    /// Whether `address` lies in it.
    pub fn has(address: *mut u8) -> bool {
        let offset = (address as usize).wrapping_sub(MEMORY.0.get() as usize);
        offset < SIZE
    }
}

/// Memory for a program's first allocations, one behind the other. A start makes ninety, most of
/// which stay, and so needs no more of an allocator than the next place. What is freed here is
/// lost, but for the last.
mod start {
    use core::alloc::Layout;
    use core::cell::UnsafeCell;

    /// A start with one mount takes some 3,300 bytes. What lies behind begins in the same page
    /// (`data.ld`).
    const SIZE: usize = 3584;

    #[repr(align(16))]
    struct Memory(UnsafeCell<[u8; SIZE]>);

    // SAFETY: each part is given out once.
    unsafe impl Sync for Memory {}

    static MEMORY: Memory = Memory(UnsafeCell::new([0; SIZE]));

    fn offset(address: *mut u8) -> usize {
        (address as usize).wrapping_sub(MEMORY.0.get() as usize)
    }

    /// Whether `address` lies in it.
    pub fn has(address: *mut u8) -> bool {
        offset(address) < SIZE
    }

    /// How many bytes of it are given out.
    pub struct Taken(usize);

    impl Taken {
        pub const NOTHING: Self = Self(0);

        /// Room for `layout`, if there is any.
        pub fn take(&mut self, layout: Layout) -> Option<*mut u8> {
            let start = self.0.checked_next_multiple_of(layout.align())?;
            let end = start.checked_add(layout.size())?;
            if end > SIZE || layout.align() > align_of::<Memory>() {
                return None;
            }
            self.0 = end;
            Some(MEMORY.0.get().cast::<u8>().wrapping_add(start))
        }

        /// Nobody uses the `layout` at `memory` any more.
        pub fn free(&mut self, memory: *mut u8, layout: Layout) {
            let _ = self.resize(memory, layout, 0);
        }

        /// Whether the `layout` at `memory` has `size` bytes now.
        pub fn resize(&mut self, memory: *mut u8, layout: Layout, size: usize) -> bool {
            let start = offset(memory);
            let end = start.checked_add(size).filter(|end| *end <= SIZE);
            if let Some(end) = end
                && start + layout.size() == self.0
            {
                self.0 = end;
                return true;
            }
            size <= layout.size()
        }
    }
}

struct Both {
    start: start::Taken,
    rest: Dlmalloc<Pages>,
}

struct Heap(Mutex<Both>);

// SAFETY: both keep the contract; the lock lets one thread in at a time, and fork finds it free
// (the engine lets no other thread be inside a hook then).
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut both = self.0.lock();
        if let Some(memory) = both.start.take(layout) {
            return memory;
        }
        // SAFETY: the caller's promise on the layout.
        unsafe { both.rest.malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let mut both = self.0.lock();
        if start::has(memory) {
            return both.start.free(memory, layout);
        }
        // SAFETY: the caller's promise that it came from here with this layout.
        unsafe { both.rest.free(memory, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let mut both = self.0.lock();
        if let Some(memory) = both.start.take(layout) {
            // SAFETY: given out a line above. Somebody may have had it before.
            unsafe { memory.write_bytes(0, layout.size()) };
            return memory;
        }
        // SAFETY: the caller's promise on the layout.
        unsafe { both.rest.calloc(layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let mut both = self.0.lock();
        if !start::has(memory) {
            // SAFETY: the caller's promise that it came from here with this layout.
            return unsafe {
                let (old, align) = (layout.size(), layout.align());
                both.rest.realloc(memory, old, align, size)
            };
        }
        if both.start.resize(memory, layout, size) {
            return memory;
        }
        drop(both);
        // SAFETY: the caller's promises; the new one is the larger.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(memory, layout.size());
                self.dealloc(memory, layout);
            }
            new
        }
    }
}

/// Gives what lies free at the heap's end back to the kernel.
///
/// Before a fork: each page that is there costs it time, and the parent once more when it writes to
/// it. A write of a megabyte leaves as much behind, which the next one would use.
pub fn trim() {
    /// What the next allocations will need again.
    const KEPT: usize = 64 << 10;
    // SAFETY: nothing that is in use goes.
    let _ = unsafe { HEAP.0.lock().rest.trim(KEPT) };
}

#[global_allocator]
static HEAP: Heap = Heap(Mutex::new(Both {
    start: start::Taken::NOTHING,
    rest: Dlmalloc::new_with_allocator(Pages),
}));
