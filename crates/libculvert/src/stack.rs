//! Finding the program's environment when nobody passes it: la_version gets a number, and
//! initialisers of musl's nothing at all.

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use culvert_run::library_copy::LIBRARY;
use culvert_sys::PAGE;
use culvert_sys::{Errno, nr, syscall};

/// AT_PAGESZ 4096, AT_CLKTCK 100, AT_PHDR: three neighbours in every x86-64 auxiliary vector
/// (`create_elf_tables`, fs/binfmt_elf.c).
static LANDMARK: [usize; 5] = [6, 4096, 17, 100, 3];
/// Entries that the kernel puts before AT_PAGESZ: AT_SYSINFO_EHDR, AT_MINSIGSTKSZ, AT_HWCAP; and
/// AT_IGNORE, which Valgrind puts in place of the first two.
const BEFORE: [usize; 4] = [33, 51, 16, 1];
/// ld.so's frames below the program's arguments are small; past this the search gives up. The
/// arguments and environment strings lie beyond the vector, so the search never leaves the stack.
const FARTHEST: usize = 1 << 20;

/// Where it was found: an auditor is asked for it twice, by its initialiser and by la_version.
static FOUND: AtomicPtr<*mut u8> = AtomicPtr::new(core::ptr::null_mut());

/// The program's environment array.
pub fn environment() -> Option<*mut *mut u8> {
    let mut found = FOUND.load(Relaxed);
    if found.is_null() {
        found = search()?;
        FOUND.store(found, Relaxed);
    }
    Some(found)
}

/// Finds it by the landmark above it on the stack.
fn search() -> Option<*mut *mut u8> {
    let start: *mut usize;
    // The stack as a whole, not a variable on it: no object of Rust's ends where this frame ends.
    // SAFETY: reads the stack pointer.
    unsafe {
        core::arch::asm!("mov {}, rsp", out(reg) start, options(nomem, nostack, preserves_flags))
    };
    for i in 0..FARTHEST {
        let here = start.wrapping_add(i);
        // Where programs are run by an emulator the vector may look otherwise, and the stack ends.
        let last = here.wrapping_add(LANDMARK.len() - 1) as usize;
        if last % PAGE < size_of::<usize>() && !is_mapped(last - last % PAGE) {
            return None;
        }
        // SAFETY: between this frame and the auxiliary vector everything is stack; the vector ends
        // the search.
        unsafe {
            if (0..LANDMARK.len()).all(|k| here.add(k).read_volatile() == LANDMARK[k])
                && let Some(found) = before(here)
            {
                return Some(found);
            }
        }
    }
    None
}

/// Whether the process has a page at `page`; also said where a filter forbids to ask.
fn is_mapped(page: usize) -> bool {
    let mut is_resident = 0u8;
    let arguments = [page, PAGE, &raw mut is_resident as usize];
    // SAFETY: mincore(2) writes one byte for the one page.
    let asked = unsafe { syscall::call(nr::MINCORE, arguments) };
    asked != Err(Errno::ENOMEM)
}

/// # Safety
/// `landmark` is AT_PAGESZ in the auxiliary vector on the stack.
unsafe fn before(landmark: *mut usize) -> Option<*mut *mut u8> {
    // SAFETY: the vector is preceded by the environment's null pointer, that by the environment's
    // pointers, the arguments' null pointer, the arguments and their count, all on the stack.
    unsafe {
        let mut vector = landmark;
        while BEFORE.contains(&vector.sub(2).read()) {
            vector = vector.sub(2);
        }
        let end = vector.sub(1);
        if end.read() != 0 {
            return None;
        }
        let mut entry = end;
        while entry.sub(1).read() != 0 && end.offset_from(entry) < 1 << 20 {
            entry = entry.sub(1);
        }
        // An environment without entries: the word before is the arguments' null pointer, or the
        // count when both are empty.
        Some(entry.cast())
    }
}

/// Whether the environment names LD_AUDIT with this library in it.
pub fn is_audited(environment: *mut *mut u8) -> bool {
    // The second is as long, and stands beside a first that names a copy.
    const NAMES: [&[u8]; 2] = [b"LD_AUDIT", LIBRARY];
    // SAFETY: ld.so passes the environment: an array that ends in a null pointer, of strings that
    // end in NUL, which is none of the name's bytes.
    let lists = (0..).map_while(|i| unsafe {
        let entry = (*environment.add(i)).cast_const();
        (!entry.is_null()).then_some(entry)
    });
    // SAFETY: as above.
    let mut lists = lists.filter_map(|entry| unsafe {
        let is_there = |(i, byte): (usize, &u8)| *entry.add(i) == *byte;
        let begins = |name: &&&[u8]| name.iter().chain(b"=").enumerate().all(is_there);
        let name = NAMES.iter().find(begins)?;
        Some(core::ffi::CStr::from_ptr(entry.add(name.len() + 1).cast()).to_bytes())
    });
    lists.any(|list| {
        list.split(|&b| b == b':')
            .any(|path| path.ends_with(b"/libculvert.so"))
    })
}
