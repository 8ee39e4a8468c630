//! A shared library, loaded as the file that was looked at.

use culvert::library::abi::{Driver, Mounted};
use culvert::mount::Mount;
use culvert::{Errno, Error, Result};
use culvert_drivers::object::{self, Words, check_closed, check_head};
use std::{
    convert::Infallible,
    ffi::{CStr, CString, c_char, c_int, c_void},
    fs::{self, File, Metadata},
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{MetadataExt, OpenOptionsExt},
        },
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
const RTLD_GLOBAL: c_int = 0x100;
/// `main` of a program.
type Main = unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) -> c_int;
const O_NONBLOCK: i32 = 0o4000;
/// What a library defines.
const SYMBOL: &CStr = c"culvert_driver";
/// What it defines instead, where its functions depend on the mount.
const CHOICE: &CStr = c"culvert_driver_for";
type Choice = unsafe extern "C" fn(*const Mounted) -> *const u8;

fn refused(why: impl Into<String>) -> Error {
    Error::because(Errno::ENOEXEC, why.into())
}

/// The functions for `mount` of the library at `path`, which is loaded for as long as the process
/// lives. To `superuser` it must be closed to all others.
///
/// # Errors
/// With the reason: it cannot be opened or loaded, is no driver, has none for this mount, or is of
/// another version.
pub fn load(path: &Path, superuser: bool, mount: &Mount) -> Result<Driver> {
    let library = opened(path, superuser, RTLD_NOW)?;
    // SAFETY: a library that was opened, and strings.
    let [symbol, choice] = [SYMBOL, CHOICE].map(|name| unsafe { dlsym(library, name.as_ptr()) });
    if !symbol.is_null() {
        return table(symbol.cast());
    }
    if choice.is_null() {
        let name = SYMBOL.to_string_lossy();
        return Err(refused(format!(
            "no driver: it does not define {name} (culvert/driver.h)"
        )));
    }
    let mut words = Words::of(mount)?;
    let mounted = words.mounted(mount.read_only());
    // SAFETY: what the library has by that name takes a mount, which lives as long as the call.
    let found = unsafe {
        let choose = std::mem::transmute::<*mut c_void, Choice>(choice);
        choose(&raw const mounted)
    };
    if found.is_null() {
        let why = words.said();
        let why = why.unwrap_or_else(|| "it has no functions for this mount".into());
        return Err(Error::because(Errno::EINVAL, why));
    }
    table(found)
}

/// The library at `path`, loaded. To `superuser` it must be closed to all others.
fn opened(path: &Path, superuser: bool, flags: c_int) -> Result<*mut c_void> {
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
        check_closed(found.uid(), found.mode())?;
    }
    // Root by the descriptor: whatever the path leads to by now, it is what was checked. Others by
    // the path, to which $ORIGIN belongs.
    let by_path = (!superuser).then(|| named(path, &found)).flatten();
    let by_descriptor = || CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
    let place = by_path.or_else(by_descriptor).ok_or(Errno::EINVAL)?;
    // SAFETY: a string; the library's constructors are its author's, as all that it does is.
    let library = unsafe { dlopen(place.as_ptr(), flags) };
    if library.is_null() {
        return Err(refused(last_error(&place)));
    }
    // The loader knows it by that number from here on: no other library may get it.
    std::mem::forget(file);
    Ok(library)
}

/// Calls `main` of the library at `path` with `words`, when the one at `api` is there for it; ends
/// the process as a program ends.
///
/// # Errors
/// With the reason: one cannot be opened or loaded, or has no `main`.
pub fn run(path: &Path, api: &Path, superuser: bool, words: &[CString]) -> Result<Infallible> {
    unsafe extern "C" {
        static environ: *const *const c_char;
        /// exit(3).
        fn exit(status: c_int) -> !;
    }
    opened(api, superuser, RTLD_NOW | RTLD_GLOBAL)
        .map_err(|error| error.within(&api.display().to_string()))?;
    let library = opened(path, superuser, RTLD_NOW)?;
    // SAFETY: a library that was opened, and a string.
    let symbol = unsafe { dlsym(library, c"main".as_ptr()) };
    if symbol.is_null() {
        return Err(refused("no program: it does not define main"));
    }
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: a main function, whose words and variables live as long as the process; then the end,
    // as the C library's start-up code has it.
    unsafe {
        let main = std::mem::transmute::<*mut c_void, Main>(symbol);
        exit(main(words.len() as c_int, pointers.as_ptr(), environ))
    }
}

/// `path` for dlopen(3), where it is still that of the file `found`, and taken as it is: without a
/// slash it would be searched for, and words with `$` are replaced (ld.so(8)).
fn named(path: &Path, found: &Metadata) -> Option<CString> {
    let now = fs::metadata(path).ok()?;
    let bytes = path.as_os_str().as_bytes();
    let same = (now.dev(), now.ino()) == (found.dev(), found.ino());
    let literal = bytes.contains(&b'/') && !bytes.contains(&b'$');
    CString::new(bytes).ok().filter(|_| same && literal)
}

/// The functions that stand at `place`.
fn table(place: *const u8) -> Result<Driver> {
    // SAFETY: the library has defined the structure, which begins so in every version.
    let [version, size] = unsafe { place.cast::<[u32; 2]>().read_unaligned() };
    check_head(version, size)?;
    // SAFETY: as many bytes as the library says that it has; each function is a pointer or null.
    Ok(unsafe { object::table(place, size as usize) })
}

/// What dlerror(3) says, without the name `place` of the library.
fn last_error(place: &CStr) -> String {
    // SAFETY: null or a string, valid until the next call of this thread.
    let text = unsafe {
        let text = dlerror();
        match text.is_null() {
            true => return "it cannot be loaded".into(),
            false => CStr::from_ptr(text),
        }
    };
    let (text, place) = (text.to_string_lossy(), place.to_string_lossy());
    let rest = text.strip_prefix(&*place);
    let rest = rest.and_then(|rest| rest.strip_prefix(": "));
    rest.unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert::library::abi::VERSION;
    use culvert_drivers::object::HEAD;

    #[test]
    fn root_loads_what_is_roots_alone() {
        assert!(check_closed(0, 0o755).is_ok());
        for (uid, mode) in [(1, 0o755), (0, 0o775), (0, 0o757)] {
            assert!(check_closed(uid, mode).is_err(), "{uid} {mode:o}");
        }
    }

    #[test]
    fn the_path_is_used_while_it_leads_to_what_was_opened() {
        let path = std::env::current_exe().expect("this test");
        let (this, other) = (fs::metadata(&path), fs::metadata("/"));
        let (this, other) = (this.expect("there"), other.expect("there"));
        assert!(named(&path, &this).is_some() && named(&path, &other).is_none());
        // What dlopen(3) would replace, or search for.
        assert!(named(Path::new("/$LIB/.."), &other).is_none());
        assert!(named(Path::new("Cargo.toml"), &other).is_none());
    }

    #[test]
    fn another_version_is_refused() {
        let heads = [
            (7, 16, "version 7"),
            (VERSION, 4, "size is 4"),
            (VERSION, 20, "size is 20"),
        ];
        for (version, size, want) in heads {
            let head = [version, size, 0, 0];
            let error = table(head.as_ptr().cast()).expect_err("refused");
            assert!(error.to_string().contains(want), "{error}");
        }
        // An older header's is shorter.
        let head = [VERSION, HEAD as u32, 4, 0];
        let driver = table(head.as_ptr().cast()).expect("fits");
        assert!(driver.flags == 4 && driver.removexattr.is_none());
    }
}
