//! What a library without std needs instead: an allocator and an end.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
    fn realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// What malloc(3) aligns to.
const ALIGNED: usize = 16;

/// malloc(3) of whoever has loaded the library: in a host the C library's, in a program Culvert's.
#[derive(Debug)]
pub struct Heap;

// SAFETY: malloc(3) and its kin keep the contract.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size; for a larger alignment than malloc's a multiple of it.
        unsafe {
            match layout.align() {
                ..=ALIGNED => malloc(layout.size()),
                align => aligned_alloc(align, layout.size().next_multiple_of(align)),
            }
        }
        .cast()
    }

    unsafe fn dealloc(&self, memory: *mut u8, _: Layout) {
        // SAFETY: the caller's promise that it came from here.
        unsafe { free(memory.cast()) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: the caller's promise that it came from here.
            return unsafe { realloc(memory.cast(), size) }.cast();
        }
        // SAFETY: the caller's promise; what is copied is in both.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(memory, layout.size().min(size));
                self.dealloc(memory, layout);
            }
            new
        }
    }
}

/// Ends the process: a defect of the driver's.
pub fn end() -> ! {
    culvert_sys::abort()
}

/// Makes the crate one without std: its allocator, and what becomes of a panic, which ends the
/// process that the driver runs in. Stands beside [`export_driver!`](crate::export_driver).
#[macro_export]
macro_rules! freestanding {
    () => {
        #[global_allocator]
        static HEAP: $crate::library::freestanding::Heap = $crate::library::freestanding::Heap;

        #[panic_handler]
        fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
            $crate::library::freestanding::end()
        }

        // Named by the precompiled `core`, never called where panic = "abort".
        core::arch::global_asm!(
            ".globl rust_eh_personality, _Unwind_Resume",
            ".hidden rust_eh_personality, _Unwind_Resume",
            "rust_eh_personality:",
            "_Unwind_Resume:",
            "ud2",
        );
    };
}
