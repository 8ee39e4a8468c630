//! Signals that end a session.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_common.h.

use crate::session::Session;
use std::{
    ffi::c_int,
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicPtr, Ordering::SeqCst},
};

/// The session that the signals end.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(ptr::null_mut());

const ENDING: [c_int; 3] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM];

extern "C" fn end(_: c_int) {
    // SAFETY: null, or a session, none of which is ever freed.
    if let Some(session) = unsafe { SESSION.load(SeqCst).as_ref() } {
        session.exit();
    }
}

/// Has `handler` called for `signal`, unless the program has something of its own for it.
unsafe fn set(signal: c_int, from: usize, handler: usize) -> c_int {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    if libc::sigaction(signal, ptr::null(), old.as_mut_ptr()) != 0 {
        return -1;
    }
    if old.assume_init().sa_sigaction != from {
        return 0;
    }
    let mut new = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
    new.sa_sigaction = handler;
    libc::sigemptyset(&raw mut new.sa_mask);
    libc::sigaction(signal, &raw const new, ptr::null_mut())
}

#[unsafe(export_name = "culvert_fuse_set_signal_handlers")]
pub unsafe extern "C" fn set_signal_handlers(session: *mut Session) -> c_int {
    let handler = end as extern "C" fn(c_int) as usize;
    SESSION.store(session, SeqCst);
    for signal in ENDING {
        if set(signal, libc::SIG_DFL, handler) != 0 {
            return -1;
        }
    }
    set(libc::SIGPIPE, libc::SIG_DFL, libc::SIG_IGN)
}

#[unsafe(export_name = "culvert_fuse_remove_signal_handlers")]
pub unsafe extern "C" fn remove_signal_handlers(session: *mut Session) {
    let handler = end as extern "C" fn(c_int) as usize;
    let _ = SESSION.compare_exchange(session, ptr::null_mut(), SeqCst, SeqCst);
    for signal in ENDING {
        set(signal, handler, libc::SIG_DFL);
    }
    set(libc::SIGPIPE, libc::SIG_IGN, libc::SIG_DFL);
}

/// Runs `function` while the signals that end a session are blocked: a thread that is made then has
/// them blocked.
pub fn blocked<T>(function: impl FnOnce() -> T) -> T {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut old = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: both are places for sets.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in ENDING {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), old.as_mut_ptr());
    }
    let result = function();
    // SAFETY: the set that there was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old.as_ptr(), ptr::null_mut()) };
    result
}

/// The signal that ends a wait in read(2); otherwise it is ignored (signal(7)).
pub const WAKING: c_int = libc::SIGURG;

/// [`WAKING`] can reach this thread, whatever was blocked where it was made.
pub fn admit_waking() {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a place for a set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), WAKING);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut());
    }
}

/// From here on [`WAKING`] interrupts; what the program had for it it has no more.
pub fn prepare_waking() {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: a handler that does nothing, without SA_RESTART; not on the small stacks that a
    // runtime may have.
    unsafe {
        let mut new = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        new.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
        new.sa_flags = libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut new.sa_mask);
        libc::sigaction(WAKING, &raw const new, ptr::null_mut());
    }
}
