//! Drivers of others: a shared library that defines `culvert_driver` as `culvert/driver.h` has it,
//! in the directory `include` of this crate, loaded with the libc of this process: a host, or the
//! server of a kernel mount. What its functions become is `culvert_drivers::object`, and so are
//! libraries that need no libc and run in programs.
#![warn(missing_docs)]

mod crash;
mod load;

use culvert::mount::Mount;
use culvert::path::PathAdapter;
use culvert::{Errno, Error, FileSystem, Result};
use culvert_drivers::object::Library;
use std::{
    ffi::{CString, OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// The file system of `mount`, whose type is the path of a library, in this process.
///
/// # Errors
/// With the reason: the library cannot be loaded, is none or of another version, or its `init` has
/// failed. To root it must be root's, and closed to all others' writes.
pub fn open(mount: &Mount) -> Result<Box<dyn FileSystem>> {
    let path = Path::new(OsStr::from_bytes(mount.driver.as_bytes()));
    let within = |error: culvert::Error| error.within(&path.display().to_string());
    let superuser = culvert_sys::process::geteuid() == 0;
    crash::tell(path);
    let functions = load::load(path, superuser, mount).map_err(within)?;
    let library = Library::begin(functions, mount).map_err(within)?;
    Ok(Box::new(PathAdapter::new(library)))
}

/// Becomes the program that the shared object at `path` is: its `main` is called with `words`, and
/// finds what it needs in the library at `api`. Comes back only with the reason why not.
pub fn run(path: &Path, api: &Path, words: &[OsString]) -> Error {
    let words = words.iter().map(|word| CString::new(word.as_bytes()));
    let Ok(words) = words.collect::<std::result::Result<Vec<_>, _>>() else {
        return Errno::EINVAL.into();
    };
    let superuser = culvert_sys::process::geteuid() == 0;
    crash::tell(path);
    match load::run(path, api, superuser, &words) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}
