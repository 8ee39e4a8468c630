//! Messages: to standard error, or to the file system's own function.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// `va_list`, which is an array in C, so a pointer to its first element here.
type Arguments = *mut c_void;
type Function = unsafe extern "C" fn(c_int, *const c_char, Arguments);

static FUNCTION: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    static stderr: *mut libc::FILE;
    fn vfprintf(file: *mut libc::FILE, format: *const c_char, arguments: Arguments) -> c_int;
}

#[unsafe(export_name = "culvert_fuse_set_log_func")]
extern "C" fn set_log_func(function: Option<Function>) {
    FUNCTION.store(function.map_or(0, |function| function as usize), Relaxed);
}

#[unsafe(export_name = "culvert_fuse_vlog")]
unsafe extern "C" fn vlog(level: c_int, format: *const c_char, arguments: Arguments) {
    match FUNCTION.load(Relaxed) {
        // SAFETY: format and arguments are the caller's, who has promised that they fit.
        0 => unsafe {
            vfprintf(stderr, format, arguments);
        },
        function => {
            // SAFETY: what `set_log_func` was given.
            let function = unsafe { std::mem::transmute::<usize, Function>(function) };
            // SAFETY: as above.
            unsafe { function(level, format, arguments) }
        }
    }
}

/// `FUSE_LOG_ERR`.
const ERROR: c_int = 3;

/// Says `text`.
pub fn say(text: &str) {
    use std::io::Write;
    let function = FUNCTION.load(Relaxed);
    let format = CString::new(format!("fuse: {text}\n").replace('%', "%%"));
    match format {
        Ok(format) if function != 0 => {
            // SAFETY: what `set_log_func` was given.
            let function = unsafe { std::mem::transmute::<usize, Function>(function) };
            // A `va_list` has at most 32 bytes; the format takes nothing of it.
            let mut nothing = [0_u64; 4];
            // SAFETY: a string that has no conversions, and as much as a `va_list` has.
            unsafe { function(ERROR, format.as_ptr(), nothing.as_mut_ptr().cast()) }
        }
        _ => {
            let _ = writeln!(std::io::stderr(), "fuse: {text}");
        }
    }
}
