//! What ld.so tells debuggers: one namespace of objects, as without an auditor.
//!
//! For the auditor's namespace glibc makes `_r_debug` version 2, with a list of namespaces behind
//! it (`struct r_debug_extended`, link.h; `_dl_debug_update`, elf/dl-debug.c). Debuggers and crash
//! reporters look at the version (Crashpad refuses 2).

use super::static_tls::LinkMap;
use core::{
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed},
};

/// `struct r_debug_extended`.
#[repr(C)]
struct Debug {
    version: i32,
    map: usize,
    changed: usize,
    state: i32,
    base: usize,
    /// There in version 2.
    next: *mut Self,
}

/// The program's own object.
static PROGRAM: AtomicPtr<LinkMap> = AtomicPtr::new(null_mut());

/// ld.so has mapped an object into the program's own namespace, first the program.
///
/// # Safety
/// `map` is what ld.so gives to `la_objopen`.
pub unsafe fn object(map: *const LinkMap) {
    let first = PROGRAM.compare_exchange(null_mut(), map.cast_mut(), Relaxed, Relaxed);
    // Before a program that was linked without PIC gets its copy of `_r_debug`.
    if first.is_err() && !IS_OVER.load(Relaxed) {
        // SAFETY: the caller's promise; the program is being loaded.
        unsafe { hide_auditor() };
    }
}

/// The program runs: what is in the list is its own.
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// ld.so has loaded the program and its libraries.
///
/// # Safety
/// No other thread runs.
pub unsafe fn end() {
    // SAFETY: the caller's promise.
    unsafe { hide_auditor() };
    IS_OVER.store(true, Relaxed);
}

/// Takes the auditor's namespace out of the list; what the program adds later (dlmopen) makes it
/// version 2 again.
///
/// # Safety
/// ld.so is loading the program, and no other thread runs.
unsafe fn hide_auditor() {
    const DT_DEBUG: usize = 21;
    // SAFETY: ld.so keeps the program's object for ever, and DT_DEBUG points to its own structure
    // (the ELF gABI).
    unsafe {
        let Some(debug) = PROGRAM
            .load(Relaxed)
            .as_ref()
            .and_then(|program| program.entry(DT_DEBUG))
        else {
            return;
        };
        let Some(debug) = (debug as *mut Debug).as_mut() else {
            return;
        };
        if debug.version == 2 && debug.next.as_ref().is_some_and(|next| next.next.is_null()) {
            debug.next = null_mut();
            debug.version = 1;
        }
    }
}
