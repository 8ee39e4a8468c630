//! The names of libraries that ld.so found by `$ORIGIN`.
//!
//! ld.so works out the program's `$ORIGIN` before it loads auditors (`call_init_paths`,
//! elf/rtld.c), so that of a program on a mount is the directory in the run directory in which the
//! kernel executes it. What is found from there is the mount's (`crate::vfs::own_file::origin`),
//! but its name is what dladdr, dl_iterate_phdr, debuggers and ldd show, and programs keep it.

use super::static_tls::LinkMap;
use crate::process;
use core::ffi::CStr;

/// ld.so has mapped an object: it is named by its path on the mount from now on.
///
/// # Safety
/// `map` is what ld.so gives to `la_objopen`.
pub unsafe fn object(map: *const LinkMap) {
    if process::joined().is_none() {
        return;
    }
    // SAFETY: the caller's promise; ld.so's names end in NUL.
    let (start, name) = unsafe {
        let start = (*map).name();
        if start.is_null() {
            return;
        }
        (start.cast_mut(), CStr::from_ptr(start).to_bytes())
    };
    let Some(path) =
        crate::vfs::own_file::origin(process::get(), name).filter(|path| !path.is_empty())
    else {
        return;
    };
    let (skipped, kept) = (name.len() - path.len(), path.len() + 1);
    // SAFETY: such a name is a copy that ld.so has made for this map (`_dl_map_object`,
    // elf/dl-load.c), on its heap; it becomes shorter where it is, because it is given back to that
    // heap.
    unsafe { core::ptr::copy(start.add(skipped), start, kept) };
}
