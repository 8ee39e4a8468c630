//! The log: silent unless CULVERT_LOG names a file, then one line an event, appended.

use crate::{nr, syscall};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicPtr, Ordering::*};

static PATH: AtomicPtr<Vec<u8>> = AtomicPtr::new(core::ptr::null_mut());

/// Sends the log to the file `path` from now on; the path lives as long as the process.
pub fn open(path: &[u8]) {
    let path = alloc::boxed::Box::new([path, b"\0"].concat());
    PATH.store(alloc::boxed::Box::into_raw(path), Release);
}

/// Whether anybody listens.
#[inline]
pub fn enabled() -> bool {
    !PATH.load(Relaxed).is_null()
}

/// The file of the log, if there is one.
pub fn path() -> Option<&'static [u8]> {
    // SAFETY: only `open` stores here, a leaked box.
    unsafe { PATH.load(Acquire).as_ref() }.map(|path| &path[..path.len() - 1])
}

/// Appends one line.
pub fn line(arguments: core::fmt::Arguments<'_>) {
    // SAFETY: only `open` stores here, a leaked box.
    let Some(path) = (unsafe { PATH.load(Acquire).as_ref() }) else {
        return;
    };
    let mut text = alloc::string::String::new();
    let pid = crate::process::getpid() as isize;
    let _ = writeln!(text, "culvert[{pid}]: {arguments}");
    const O_WRONLY_CREAT_APPEND_CLOEXEC: usize = 0o1 | 0o100 | 0o2000 | 0o2000000;
    // SAFETY: the path ends in NUL; the descriptor is used here only.
    unsafe {
        if let Ok(fd) = syscall::call(
            nr::OPEN,
            [path.as_ptr() as usize, O_WRONLY_CREAT_APPEND_CLOEXEC, 0o600],
        ) {
            let _ = syscall::call(nr::WRITE, [fd, text.as_ptr() as usize, text.len()]);
            let _ = syscall::call(nr::CLOSE, [fd]);
        }
    }
}

/// Logs one line, formatted like `format!`, at no cost when nobody listens.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { if $crate::log::enabled() { $crate::log::line(format_args!($($argument)*)) } };
}
