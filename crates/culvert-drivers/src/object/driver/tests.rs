//! What a library is called for, when, and what its answers become.

use super::answers::{MOST_NAMES, NAMES_AT_FIRST};
use super::*;
use core::ffi::{c_char, c_void};
use culvert::library::abi::{Dirent, Driver, Mounted};
use culvert::mount::Mount;
use culvert::sync::Mutex;
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

pub(super) fn mounted() -> Mount {
    Mount {
        driver: "./lib.so".into(),
        source: b"/source".to_vec(),
        target: b"/target".to_vec(),
        options: Vec::new(),
        branches: Vec::new(),
    }
}

fn begun(driver: Driver) -> PathAdapter<Library> {
    let driver = Driver {
        getattr: Some(attributes),
        write: Some(write),
        ..driver
    };
    PathAdapter::new(Library::begin(driver, &mounted()).expect("it has no init"))
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
fn a_directory_that_is_open_is_listed_only_by_who_can() {
    extern "C" fn opendir(_: Pointer, _: Name, _: *mut Pointer) -> c_int {
        0
    }
    let library = begun(Driver {
        opendir: Some(opendir),
        ..Driver::NONE
    });
    let open = library.driver().open_directory(&Caller::SYSTEM, b"");
    assert!(open.expect("nobody is asked").is_none());
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

#[test]
fn init_may_say_why_it_has_returned_what_is_no_errno() {
    extern "C" fn init(mounted: *const Mounted, _: *mut Pointer) -> c_int {
        // SAFETY: room for a reason.
        unsafe {
            (*mounted)
                .reason
                .copy_from_nonoverlapping(c"no moon".as_ptr(), 8)
        };
        -22
    }
    let driver = Driver {
        init: Some(init),
        ..Driver::NONE
    };
    let error = Library::begin(driver, &mounted()).err().expect("it fails");
    assert_eq!(error.errno(), Errno::EIO);
    assert!(format!("{error}").contains("no moon"), "{error}");
}

#[test]
fn a_hint_of_any_size_is_a_hint() {
    extern "C" fn hint(_: Pointer, _: Name, count: *mut usize) -> c_int {
        // SAFETY: a counter.
        unsafe { *count = usize::MAX };
        0
    }
    extern "C" fn names(
        _: Pointer,
        _: Name,
        _: *mut Dirent,
        room: usize,
        count: *mut usize,
    ) -> c_int {
        // SAFETY: a counter.
        unsafe { *count = 0 };
        if room == NAMES_AT_FIRST { 0 } else { 5 }
    }
    let library = begun(Driver {
        getdirentcount: Some(hint),
        getdirents: Some(names),
        ..Driver::NONE
    });
    assert!(library.driver().list(b"").expect("empty").is_empty());
}

#[test]
fn an_open_file_goes_on_with_what_was_saved_of_it() {
    extern "C" fn save(_: Pointer, _: Pointer, buffer: *mut u8, size: *mut usize) -> c_int {
        // SAFETY: room for as much as it says.
        unsafe {
            assert!(*size >= 2);
            buffer.copy_from_nonoverlapping(b"42".as_ptr(), 2);
            *size = 2;
        }
        0
    }
    extern "C" fn restore(
        _: Pointer,
        _: Name,
        _: c_int,
        saved: *const u8,
        size: usize,
        file: *mut Pointer,
    ) -> c_int {
        // SAFETY: as many bytes, and room for a pointer.
        unsafe {
            assert_eq!(core::slice::from_raw_parts(saved, size), b"42");
            *file = core::ptr::without_provenance_mut(42);
        }
        0
    }
    let library = begun(Driver {
        save: Some(save),
        restore: Some(restore),
        ..Driver::NONE
    });
    let library = library.driver();
    let flags = OpenFlags(0);
    let open = library.open(&Caller::SYSTEM, b"file", flags);
    let saved = open.and_then(|open| library.save(&open)).expect("saved");
    let again = library.restore(&Caller::SYSTEM, b"file", flags, &saved);
    assert_eq!(again.expect("open again").file as usize, 42);

    let without = begun(Driver::NONE);
    let open = without.driver().open(&Caller::SYSTEM, b"file", flags);
    let saved = open.and_then(|open| without.driver().save(&open));
    assert!(saved.expect("nothing").is_empty());
}

#[test]
fn locks_and_changes_go_both_ways() {
    use culvert::path::{PathChange, PathObserver};
    use culvert::{Lock, LockKind, LockOwner, Wait};

    static TOLD: Mutex<Vec<std::string::String>> = Mutex::new(Vec::new());

    extern "C" fn getlk(_: Pointer, _: Pointer, owner: u64, lock: *mut abi::Flock) -> c_int {
        // SAFETY: a lock.
        let lock = unsafe { &mut *lock };
        assert_eq!((owner, lock.kind, lock.start, lock.len), (7, 1, 10, 0));
        (lock.kind, lock.start, lock.len, lock.pid) = (0, 20, 5, 99);
        0
    }
    extern "C" fn setlk(
        _: Pointer,
        _: Pointer,
        _: u64,
        lock: *const abi::Flock,
        wait: *const abi::Wait,
    ) -> c_int {
        // SAFETY: a lock, and null or how long to wait.
        unsafe {
            assert_eq!(((*lock).kind, (*lock).start, (*lock).len), (2, 0, 1));
            match wait.is_null() {
                true => Errno::EAGAIN.raw(),
                false if ((*wait).interrupted)(wait) != 0 => Errno::EINTR.raw(),
                false => 0,
            }
        }
    }
    extern "C" fn observe(_: Pointer, observer: *const abi::Observer) -> c_int {
        // SAFETY: an observer, and a string.
        unsafe { ((*observer).tell)(observer, abi::CONTENT, c"a/b".as_ptr()) };
        0
    }
    struct Heard;
    impl PathObserver for Heard {
        fn tell(&self, change: PathChange<'_>) {
            TOLD.lock().push(format!("{change:?}"));
        }
    }

    let library = begun(Driver {
        getlk: Some(getlk),
        setlk: Some(setlk),
        observe: Some(observe),
        ..Driver::NONE
    });
    let library = library.driver();
    let open = library.open(&Caller::SYSTEM, b"file", OpenFlags(0));
    let open = open.expect("it has no open");
    let ever = i64::MAX as u64;
    let lock = |kind, start, end, pid| Lock {
        kind,
        start,
        end,
        pid,
    };
    let asked = lock(LockKind::Exclusive, 10, ever, 0);
    let found = library.get_lock(&open, LockOwner(7), &asked);
    let found = found.expect("it has getlk");
    assert_eq!(found, Some(lock(LockKind::Shared, 20, 24, 99)));
    let (unlock, owner) = (lock(LockKind::Unlock, 0, 0, 0), LockOwner(7));
    for (wait, want) in [
        (Wait::Never, Some(Errno::EAGAIN)),
        (Wait::UntilInterrupted(&|| true), Some(Errno::EINTR)),
        (Wait::UntilInterrupted(&|| false), None),
    ] {
        let set = library.set_lock(&open, owner, &unlock, wait);
        assert_eq!(set.err().map(|error| error.errno()), want);
    }
    let whole = library.flock(&open, owner, LockKind::Shared, Wait::Never);
    assert_eq!(whole.expect_err("none").errno(), Errno::ENOSYS);
    assert!(library.observe(Arc::new(Heard)));
    let content = format!("{:?}", PathChange::Content(b"a/b"));
    assert_eq!(TOLD.lock()[..], [content]);
    assert!(!library.capabilities().polls);
}

/// Two keys of two bytes with values of one, which nobody changes.
pub(super) struct Two;

pub(super) const KEYS: [&[u8]; 2] = [b"ab", b"cd"];

impl Maps for Two {
    fn sizes(&self, map: &str) -> Result<[usize; 2]> {
        match map {
            "two" => Ok([2, 1]),
            _ => Err(Errno::ENXIO.into()),
        }
    }

    fn get(&self, map: &str, key: &[u8], value: &mut [u8]) -> Result<()> {
        if [key.len(), value.len()] != self.sizes(map)? {
            return Err(Errno::EINVAL.into());
        }
        let at = KEYS.iter().position(|kept| *kept == key);
        value[0] = at.ok_or(Errno::ENOENT)? as u8;
        Ok(())
    }

    fn put(&self, map: &str, key: &[u8], value: &[u8]) -> Result<()> {
        if [key.len(), value.len()] != self.sizes(map)? {
            return Err(Errno::EINVAL.into());
        }
        Err(Errno::E2BIG.into())
    }

    fn remove(&self, map: &str, _: &[u8]) -> Result<()> {
        self.sizes(map).and(Err(Errno::EPERM.into()))
    }

    fn next(&self, map: &str, key: Option<&[u8]>, next: &mut [u8]) -> Result<()> {
        if next.len() != self.sizes(map)?[0] {
            return Err(Errno::EINVAL.into());
        }
        let at = key.map_or(0, |key| {
            KEYS.iter()
                .position(|kept| *kept == key)
                .map_or(0, |at| at + 1)
        });
        next.copy_from_slice(KEYS.get(at).ok_or(Errno::ENOENT)?);
        Ok(())
    }
}

#[test]
fn a_library_has_the_maps_of_its_extension_by_functions() {
    extern "C" fn extended(_: Pointer, maps: *const abi::Maps) -> c_int {
        let two = c"two".as_ptr();
        let (mut key, mut value, mut sizes) = (*b"zz", [9_u8], [0_usize; 2]);
        // SAFETY: the maps, strings, and bytes with their lengths.
        unsafe {
            let of = &*maps;
            let [key_size, value_size] = &mut sizes;
            assert_eq!((of.sizes)(maps, two, key_size, value_size), 0);
            assert_eq!(sizes, [2, 1]);
            let none = c"none".as_ptr();
            let null = core::ptr::null_mut();
            assert_eq!((of.sizes)(maps, none, null, null), Errno::ENXIO.raw());
            // The first one, and the others in the place of the one before.
            let place = key.as_mut_ptr();
            assert_eq!((of.next)(maps, two, core::ptr::null(), place, 2), 0);
            assert_eq!((of.get)(maps, two, place, 2, value.as_mut_ptr(), 1), 0);
            assert_eq!(value, [0]);
            assert_eq!((of.next)(maps, two, place, place, 2), 0);
            assert_eq!((of.get)(maps, two, place, 2, value.as_mut_ptr(), 1), 0);
            assert_eq!(value, [1]);
            let end = (of.next)(maps, two, place, place, 2);
            assert_eq!(end, Errno::ENOENT.raw());
            let short = (of.get)(maps, two, place, 1, value.as_mut_ptr(), 1);
            assert_eq!(short, Errno::EINVAL.raw());
            let full = (of.put)(maps, two, place, 2, value.as_ptr(), 1);
            assert_eq!(full, Errno::E2BIG.raw());
            (of.remove)(maps, two, place, 2)
        }
    }
    let without = begun(Driver::NONE);
    assert!(without.extended(Arc::new(Two)).is_ok());
    let library = begun(Driver {
        extended: Some(extended),
        ..Driver::NONE
    });
    let refused = library.extended(Arc::new(Two)).expect_err("as it says");
    assert_eq!(refused.errno(), Errno::EPERM);
}
