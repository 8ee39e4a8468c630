//! `libculvert.so`: the shared object that is loaded into programs.
//!
//! Freestanding: no libc, no thread-local storage, no constructors of others. ld.so loads it as an
//! auditor (LD_AUDIT) before it opens any library of the program, and calls [`la_version`]; where
//! there is no LD_AUDIT (musl) it is preloaded, and its initialiser is called.
#![no_std]

extern crate alloc;

mod defect;
mod heap;
mod memory_functions;
mod relocation;
mod stack;

use core::sync::atomic::{AtomicBool, Ordering::*};
use culvert_preload::exec::static_tls::{self, LinkMap};
use culvert_preload::exec::{debugger, library_names};
use culvert_preload::start::{Environment, emulated, start};

/// Both ways in may be taken by the same object (an auditor's initialiser runs too).
static STARTED: AtomicBool = AtomicBool::new(false);

/// The handshake of rtld-audit(7): called before ld.so opens the program's libraries, by the only
/// thread.
///
/// # Safety
/// Only ld.so calls this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_version(version: u32) -> u32 {
    if let Some(environment) = stack::environment() {
        // SAFETY: found on the stack where the kernel put it; ld.so has read what it wants from it.
        unsafe { begin(environment) };
    }
    version
}

/// ld.so has mapped an object (rtld-audit(7)): it gets its name, and room for its thread-local
/// storage is seen to before any is relocated.
///
/// # Safety
/// Only ld.so calls this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objopen(map: *const LinkMap, namespace: isize, _: *mut usize) -> u32 {
    const LM_ID_BASE: isize = 0;
    // SAFETY: ld.so's promise.
    unsafe {
        library_names::object(map);
        if namespace == LM_ID_BASE {
            static_tls::object(map);
            debugger::object(map);
        }
    }
    // No symbol's binding is asked for.
    0
}

/// ld.so has loaded the program and all its libraries (rtld-audit(7)).
#[unsafe(no_mangle)]
pub extern "C" fn la_preinit(_: *mut usize) {
    static_tls::end();
    // SAFETY: ld.so's promise; before the program's initialisers.
    unsafe { debugger::end() };
}

/// # Safety
/// As [`start`]; more calls than one are ignored.
unsafe fn begin(environment: *mut *mut u8) {
    if !STARTED.swap(true, Relaxed) {
        culvert_preload::lifecycle::fork::trim_with(heap::trim);
        // Valgrind tells its user of a stack that it does not know.
        let begin = match emulated::by_valgrind() {
            true => on_any_stack,
            false => on_hook_stack,
        };
        // SAFETY: the caller's promise.
        unsafe { begin(environment) };
    }
}

/// [`start`] on the stack that hooks will use, which takes no page of the program's own.
///
/// # Safety
/// As [`start`].
unsafe extern "C" fn on_hook_stack(environment: *mut *mut u8) {
    // SAFETY: nobody uses the stack yet; the way back is in a register that the callee preserves.
    unsafe {
        core::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {stack}",
            "call {start}",
            "mov rsp, r12",
            stack = in(reg) culvert_intercept::first_stack(),
            start = sym on_any_stack,
            in("rdi") environment,
            out("r12") _,
            clobber_abi("C"),
        );
    }
}

/// # Safety
/// As [`start`].
unsafe extern "C" fn on_any_stack(environment: *mut *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { start(Environment::new(environment), relocation::is_copy()) };
}

/// The preloaded way in. glibc gives initialisers the arguments of main, musl gives them nothing
/// (`do_init_fini`, ldso/dynlink.c): the environment is looked for on the stack, which is the first
/// thread's as long as no code of the program has run.
unsafe extern "C" fn initialise() {
    let Some(environment) = stack::environment() else {
        return;
    };
    // As an auditor, `la_version` comes after the initialiser and before any library of the
    // program: wait for it, ld.so is not relocated fully yet.
    if stack::is_audited(environment) {
        return;
    }
    // SAFETY: found on the stack; single-threaded, before main.
    unsafe { begin(environment) };
}

#[used]
#[unsafe(link_section = ".init_array")]
static INITIALISER: unsafe extern "C" fn() = initialise;

// Named by the precompiled `core`, never called: this crate aborts on panic. Hidden, so that a
// preloaded libculvert.so does not stand in for the program's own unwinder.
core::arch::global_asm!(
    ".globl rust_eh_personality, _Unwind_Resume",
    ".hidden rust_eh_personality, _Unwind_Resume",
    "rust_eh_personality:",
    "_Unwind_Resume:",
    "ud2",
);
