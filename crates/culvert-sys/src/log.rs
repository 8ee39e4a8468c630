//! The log: silent unless CULVERT_LOG names a file, then one line an event, appended.

use crate::flags::OFlags;
use crate::fs;
use crate::sync::AtomicRef;
use alloc::{boxed::Box, ffi::CString};
use core::fmt::Write;

static PATH: AtomicRef<CString> = AtomicRef::new();

/// Sends the log to the file `path` from now on; the path lives as long as the process.
pub fn open(path: &[u8]) {
    let path = CString::new(path).unwrap_or_default();
    PATH.set(Some(Box::leak(Box::new(path))));
}

/// Whether anybody listens.
#[inline]
pub fn enabled() -> bool {
    PATH.is_some()
}

/// The file of the log, if there is one.
pub fn path() -> Option<&'static [u8]> {
    PATH.get().map(|path| path.to_bytes())
}

/// Appends one line.
pub fn line(arguments: core::fmt::Arguments<'_>) {
    let Some(path) = PATH.get() else {
        return;
    };
    let mut text = alloc::string::String::new();
    let pid = crate::process::getpid() as isize;
    let _ = writeln!(text, "culvert[{pid}]: {arguments}");
    let flags = OFlags::WRONLY | OFlags::CREAT | OFlags::APPEND | OFlags::CLOEXEC;
    if let Ok(file) = fs::open(path, flags, 0o600) {
        let _ = fs::write(&file, text.as_bytes());
    }
}

/// Logs one line, formatted like `format!`, at no cost when nobody listens.
#[macro_export]
macro_rules! log {
    ($($argument:tt)*) => { if $crate::log::enabled() { $crate::log::line(format_args!($($argument)*)) } };
}
