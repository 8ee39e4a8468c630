//! What a crash in a library leaves in the log: the functions in which it happened.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::Path,
    sync::OnceLock,
};

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn sigaction(signal: c_int, action: *const Action, before: *mut Action) -> c_int;
    fn raise(signal: c_int) -> c_int;
    fn write(fd: c_int, bytes: *const c_void, size: usize) -> isize;
}

/// SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV.
const SIGNALS: [c_int; 5] = [4, 6, 7, 8, 11];
const SA_ONSTACK: c_int = 0x0800_0000;
const SA_RESETHAND: c_int = 0x8000_0000_u32 as c_int;
const STDERR: c_int = 2;

/// The handler's own frames: it, and what the kernel returns to.
const OWN: c_int = 2;

/// `struct sigaction` of x86-64's C libraries.
#[repr(C)]
struct Action {
    handler: extern "C" fn(c_int),
    mask: [u64; 16],
    flags: c_int,
    restorer: usize,
}

/// backtrace(3) and backtrace_symbols_fd(3), which not every C library has.
#[derive(Clone, Copy)]
struct Functions {
    frames: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int,
    print: unsafe extern "C" fn(*const *mut c_void, c_int, c_int),
}

struct Told {
    line: String,
    functions: Option<Functions>,
}

static TOLD: OnceLock<Told> = OnceLock::new();

extern "C" fn crashed(signal: c_int) {
    if let Some(told) = TOLD.get() {
        let mut frames = [std::ptr::null_mut(); 64];
        // SAFETY: bytes, and a place for as many frames as there are; what they load was loaded
        // before.
        unsafe {
            write(STDERR, told.line.as_ptr().cast(), told.line.len());
            if let Some(functions) = told.functions {
                let count = (functions.frames)(frames.as_mut_ptr(), 64);
                // Behind a call that never returns another function may begin.
                for frame in &mut frames {
                    *frame = frame.wrapping_byte_sub(1);
                }
                let ours = OWN.min(count);
                (functions.print)(frames.as_ptr().add(ours as usize), count - ours, STDERR);
            }
        }
    }
    // It waits until the handler returns, and the default comes back: the process ends by it.
    // SAFETY: a number.
    unsafe { raise(signal) };
}

fn functions() -> Option<Functions> {
    let found = |name: &CStr| {
        // SAFETY: what the process has by a name.
        let place = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
        (!place.is_null()).then_some(place)
    };
    let (frames, print) = (found(c"backtrace")?, found(c"backtrace_symbols_fd")?);
    // SAFETY: functions of the C library's, as its header has them.
    let functions = unsafe {
        Functions {
            frames: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int,
            >(frames),
            print: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*const *mut c_void, c_int, c_int),
            >(print),
        }
    };
    // The first call loads the unwinder, which a handler must not.
    let mut one = [std::ptr::null_mut()];
    // SAFETY: room for one.
    unsafe { (functions.frames)(one.as_mut_ptr(), 1) };
    Some(functions)
}

/// From here on a crash says that it happened with the library at `path`, and where. A runtime that
/// the library brings may have handlers of its own, which take the place of these; a sanitizer that
/// the process began with tells more than they do.
pub fn tell(path: &Path) {
    // SAFETY: what the process has by a name.
    if !unsafe { dlsym(std::ptr::null_mut(), c"__asan_init".as_ptr()) }.is_null() {
        return;
    }
    let line = format!("culvert: {}: crashed in\n", path.display());
    if TOLD
        .set(Told {
            line,
            functions: functions(),
        })
        .is_err()
    {
        return;
    }
    let action = Action {
        handler: crashed,
        mask: [0; 16],
        flags: SA_ONSTACK | SA_RESETHAND,
        restorer: 0,
    };
    for signal in SIGNALS {
        // SAFETY: an action of the C library's form, whose function calls what a handler may.
        unsafe { sigaction(signal, &raw const action, std::ptr::null_mut()) };
    }
}
