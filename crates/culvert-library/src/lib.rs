//! Drivers of others: a shared library that defines `culvert_driver` as `culvert/driver.h` has it, in
//! the directory `include` of this crate. It runs in a host, or behind a kernel mount, never in a
//! program's own process.
#![warn(missing_docs)]

mod abi;
mod driver;
mod load;

use culvert::mount::Mount;
use culvert::path::PathAdapter;
use culvert::{FileSystem, Result};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// The file system of `mount`, whose type is the path of a library, in this process.
///
/// # Errors
/// With the reason: the library cannot be loaded, is none or of another version, or its `init` has
/// failed. To root it must be root's, and closed to all others' writes.
pub fn open(mount: &Mount) -> Result<Box<dyn FileSystem>> {
    let path = Path::new(OsStr::from_bytes(mount.driver.as_bytes()));
    let within = |error: culvert::Error| error.within(&path.display().to_string());
    let functions = load::load(path, culvert_sys::process::geteuid() == 0).map_err(within)?;
    let library = driver::Library::begin(functions, mount).map_err(within)?;
    Ok(Box::new(PathAdapter::new(library)))
}
