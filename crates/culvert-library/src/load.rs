//! A shared library, opened once by its path and from there on by its descriptor.

use crate::abi::{Driver, VERSION};
use culvert::{Errno, Error, Result};
use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    fs::File,
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::Path,
};

unsafe extern "C" {
    /// dlopen(3).
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    /// dlsym(3).
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    /// dlerror(3).
    fn dlerror() -> *const c_char;
}

const RTLD_NOW: c_int = 2;
const O_NONBLOCK: i32 = 0o4000;
/// What a library defines.
const SYMBOL: &CStr = c"culvert_driver";
/// Version, size and flags.
const HEAD: usize = 16;

fn refused(why: impl Into<String>) -> Error {
    Error::because(Errno::ENOEXEC, why.into())
}

/// The functions of the library at `path`, which is loaded for as long as the process lives. To
/// `superuser` it must be closed to all others.
///
/// # Errors
/// With the reason: it cannot be opened or loaded, is no driver, or of another version.
pub fn load(path: &Path, superuser: bool) -> Result<Driver> {
    let failed = |error: std::io::Error| {
        let errno = error.raw_os_error().unwrap_or(Errno::EIO.raw());
        Error::from(Errno::new(errno))
    };
    let file = File::options()
        .read(true)
        .custom_flags(O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(refused("not a regular file"));
    }
    if superuser {
        check_closed(found.uid(), found.gid(), found.mode())?;
    }
    // By the descriptor: whatever the path leads to by now, it is what was checked.
    let place = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let place = place.map_err(|_| Errno::EINVAL)?;
    // SAFETY: a string; the library's constructors are its author's, as all that it does is.
    let library = unsafe { dlopen(place.as_ptr(), RTLD_NOW) };
    if library.is_null() {
        return Err(refused(last_error()));
    }
    // SAFETY: a library that was opened, and a string.
    let symbol = unsafe { dlsym(library, SYMBOL.as_ptr()) };
    if symbol.is_null() {
        let name = SYMBOL.to_string_lossy();
        return Err(refused(format!(
            "no driver: it does not define {name} (culvert/driver.h)"
        )));
    }
    table(symbol.cast())
}

/// A library that others may change would do what they like with root's rights.
fn check_closed(uid: u32, gid: u32, mode: u32) -> Result<()> {
    let others_write = mode & 0o002 != 0 || mode & 0o020 != 0 && gid != 0;
    match (uid, others_write) {
        (0, false) => Ok(()),
        (0, true) => Err(Error::because(
            Errno::EPERM,
            "others than root may write it; chmod go-w makes it one that root loads",
        )),
        _ => Err(Error::because(
            Errno::EPERM,
            format!(
                "it belongs to user {uid}, and root loads none but root's own; chown it, or run as that user"
            ),
        )),
    }
}

/// The functions that stand at `place`.
fn table(place: *const u8) -> Result<Driver> {
    // SAFETY: the library has defined the structure, which begins so in every version.
    let [version, size] = unsafe { place.cast::<[u32; 2]>().read_unaligned() };
    if version != VERSION {
        return Err(refused(format!(
            "made for version {version} of culvert/driver.h, and this is version {VERSION}; compile it anew"
        )));
    }
    let size = size as usize;
    if size < HEAD {
        return Err(refused(format!("culvert_driver.size is {size}")));
    }
    let mut driver = Driver::NONE;
    let length = size.min(size_of::<Driver>());
    // SAFETY: as many bytes as the library has, and as there is room; what lies behind is missing.
    // Each function is a pointer or null, which is none.
    unsafe {
        std::ptr::from_mut(&mut driver)
            .cast::<u8>()
            .copy_from_nonoverlapping(place, length);
    }
    Ok(driver)
}

/// What dlerror(3) says, without the path that stands for the descriptor.
fn last_error() -> String {
    // SAFETY: null or a string, valid until the next call of this thread.
    let text = unsafe {
        let text = dlerror();
        match text.is_null() {
            true => return "it cannot be loaded".into(),
            false => CStr::from_ptr(text),
        }
    };
    let text = text.to_string_lossy();
    let place = text
        .split_once(": ")
        .filter(|(place, _)| place.starts_with("/proc/self/fd/"));
    place.map_or(&*text, |(_, rest)| rest).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_loads_what_is_roots_alone() {
        assert!(check_closed(0, 0, 0o755).is_ok() && check_closed(0, 0, 0o775).is_ok());
        for (uid, gid, mode) in [(1, 0, 0o755), (0, 1, 0o775), (0, 0, 0o757)] {
            assert!(
                check_closed(uid, gid, mode).is_err(),
                "{uid} {gid} {mode:o}"
            );
        }
    }

    #[test]
    fn another_version_is_refused() {
        for (version, size, want) in [(7, 16, "version 7"), (VERSION, 4, "size is 4")] {
            let head = [version, size, 0, 0];
            let error = table(head.as_ptr().cast()).err().expect("refused");
            assert!(error.to_string().contains(want), "{error}");
        }
        // An older header's is shorter.
        let head = [VERSION, HEAD as u32, 4, 0];
        let driver = table(head.as_ptr().cast()).expect("fits");
        assert!(driver.flags == 4 && driver.removexattr.is_none());
    }
}
