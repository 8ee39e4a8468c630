//! What a library is called for, when, and what its answers become.

use super::*;
use culvert::{FileSystem, Node, Opened, path::PathAdapter};
use std::vec::Vec;

type Pointer = *mut c_void;
type Name = *const c_char;

/// A directory, whose names are all regular files.
extern "C" fn attributes(_: Pointer, path: Name, found: *mut Stat) -> c_int {
    // SAFETY: a string, and room for one.
    unsafe {
        (*found).mode = match *path {
            0 => 0o040_755,
            _ => 0o100_644,
        };
    }
    0
}

extern "C" fn write(
    _: Pointer,
    _: Pointer,
    _: *const u8,
    _: usize,
    _: i64,
    _: *mut usize,
) -> c_int {
    0
}

fn begun(driver: Driver) -> PathAdapter<Library> {
    let mount = Mount {
        driver: "./lib.so".into(),
        source: b"/source".to_vec(),
        target: b"/target".to_vec(),
        options: Vec::new(),
        branches: Vec::new(),
    };
    let driver = Driver {
        getattr: Some(attributes),
        write: Some(write),
        ..driver
    };
    PathAdapter::new(Library::begin(driver, &mount).expect("it has no init"))
}

fn opened(library: &PathAdapter<Library>, flags: u32) -> Result<Opened> {
    let file = library.lookup(&Caller::SYSTEM, library.root(), b"file");
    let file: Node = file.expect("all names are there").attributes.node;
    library.open(&Caller::SYSTEM, file, OpenFlags(flags))
}

#[test]
fn what_is_open_at_the_end_is_closed_before_finalize() {
    static CALLS: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    fn note(call: &'static str) -> c_int {
        CALLS.lock().push(call);
        0
    }
    extern "C" fn open(_: Pointer, _: Name, _: c_int, _: u32, _: *mut Pointer) -> c_int {
        note("open")
    }
    extern "C" fn close(_: Pointer, _: Pointer) -> c_int {
        note("close")
    }
    extern "C" fn finalize(_: Pointer) {
        note("finalize");
    }
    let library = begun(Driver {
        open: Some(open),
        close: Some(close),
        finalize: Some(finalize),
        ..Driver::NONE
    });
    let file = opened(&library, 0).map_err(|error| error.errno());
    // As a session ends.
    library.finish();
    drop(library);
    drop(file);
    let calls = CALLS.lock();
    assert_eq!(*calls, ["open", "close", "finalize"]);
}

#[test]
fn access_is_asked_before_open() {
    const EACCES: c_int = 13;
    extern "C" fn access(_: Pointer, _: Name, wanted: c_int) -> c_int {
        match wanted & 2 {
            0 => 0,
            _ => EACCES,
        }
    }
    let library = begun(Driver {
        access: Some(access),
        ..Driver::NONE
    });
    // O_RDONLY; O_WRONLY, O_RDWR, O_TRUNC.
    for (flags, want) in [(0, None), (1, Some(13)), (2, Some(13)), (0o1000, Some(13))] {
        let error = opened(&library, flags).err();
        assert_eq!(error.map(|error| error.errno().raw()), want, "{flags:o}");
    }
}

#[test]
fn what_is_no_errno_is_an_error_of_the_library() {
    for (result, want) in [(1, 1), (511, 511), (512, 5), (4095, 5), (-2, 5)] {
        let error = checked("read", result).expect_err("not 0");
        assert_eq!(error.errno().raw(), want, "{result}");
    }
}

#[test]
fn too_many_names_are_an_error() {
    extern "C" fn names(_: Pointer, _: Name, _: *mut Dirent, _: usize, count: *mut usize) -> c_int {
        // SAFETY: a counter.
        unsafe { *count = MOST_NAMES + 1 };
        0
    }
    let library = begun(Driver {
        getdirents: Some(names),
        ..Driver::NONE
    });
    let error = library.driver().list(b"").expect_err("too many");
    assert_eq!(error.errno(), Errno::EOVERFLOW);
}
