//! Code is rewritten when it is mapped: at a moment when ld.so has not finished, and where the
//! kernel forbids writable code.

use culvert_intercept::{Interest, patch};
use culvert_sys::PAGE64;
use std::os::fd::AsRawFd;
use std::process::Command;

const READ: i32 = 1;
const WRITE: i32 = 2;
const EXECUTE: i32 = 4;
const SHARED: i32 = 1;
const PRIVATE: i32 = 2;
const FIXED: i32 = 0x10;

unsafe extern "C" {
    fn mmap(address: u64, length: u64, protection: i32, flags: i32, file: i32, offset: u64) -> u64;
    fn munmap(address: u64, length: u64) -> i32;
    fn prctl(option: i32, ...) -> i32;
}

static TABLE: [u8; 65536] = [0; 65536];

fn settings(cache_directories: &'static [&'static [u8]]) -> patch::Settings {
    patch::Settings {
        entry: settings as fn(_) -> _ as usize,
        interest: |_| Interest::Always,
        numbers: TABLE.as_ptr() as usize,
        descriptors: TABLE.as_ptr() as usize,
        own: 0,
        cache_directories,
    }
}

struct Library {
    file: std::fs::File,
    /// Offset, address and file size of the executable segment.
    code: (u64, u64, u64),
    /// Bytes from the first to the last address.
    span: u64,
}

/// This machine's libc, which nobody has mapped at this address before.
fn library() -> Library {
    let path = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/libc.so.6",
        "/lib/ld-musl-x86_64.so.1",
    ];
    let path = path
        .iter()
        .find(|path| std::path::Path::new(path).exists())
        .unwrap();
    let bytes = std::fs::read(path).unwrap();
    let (_, _, headers) = culvert_intercept::elf::header(&bytes).unwrap();
    let loads = || {
        headers
            .iter()
            .filter(|header| header.kind == culvert_intercept::elf::LOAD)
    };
    let code = loads().find(|header| header.flags & 1 != 0).unwrap();
    Library {
        file: std::fs::File::open(path).unwrap(),
        code: (code.offset, code.address, code.file_size),
        span: loads()
            .map(|load| load.address + load.memory_size)
            .max()
            .unwrap(),
    }
}

impl Library {
    /// Maps what ld.so has mapped when it maps the code: the whole span as the first segment, then
    /// the code over it. Returns the code's address.
    fn map(&self, flags: i32) -> u64 {
        let file = self.file.as_raw_fd();
        let (offset, address, size) = self.code;
        // SAFETY: at a new address, then over a part of that.
        unsafe {
            let base = mmap(0, self.span, READ, PRIVATE, file, 0);
            assert_ne!(base, u64::MAX);
            let code = mmap(
                base + address,
                size,
                READ | EXECUTE,
                flags | FIXED,
                file,
                offset,
            );
            assert_eq!(code, base + address);
            code
        }
    }

    fn reopen(&self) -> std::fs::File {
        std::fs::File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())).unwrap()
    }

    fn unmap(&self, code: u64) {
        // SAFETY: mapped above.
        assert_eq!(unsafe { munmap(code - self.code.1, self.span) }, 0);
    }

    fn patch(&self, code: u64, settings: &patch::Settings) -> patch::Patched {
        // SAFETY: nobody runs this copy.
        unsafe { patch::range(settings, code as usize, self.code.2 as usize) }
    }

    /// How many bytes of the code differ from the file.
    fn changed(&self, code: u64) -> usize {
        use std::os::unix::fs::FileExt;
        let mut original = vec![0; self.code.2 as usize];
        self.file.read_exact_at(&mut original, self.code.0).unwrap();
        // SAFETY: mapped above.
        let now = unsafe { std::slice::from_raw_parts(code as *const u8, original.len()) };
        now.iter()
            .zip(&original)
            .filter(|(now, original)| now != original)
            .count()
    }
}

fn protection_of(address: u64) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split(' ').next().unwrap();
        (u64::from_str_radix(start, 16).unwrap()..u64::from_str_radix(end, 16).unwrap())
            .contains(&address)
    });
    line.unwrap().split(' ').nth(1).unwrap().into()
}

#[test]
fn a_library_is_rewritten_while_it_is_being_loaded() {
    let library = library();
    let code = library.map(PRIVATE);
    let patched = library.patch(code, &settings(&[]));
    assert_eq!(
        (
            patched.objects,
            patched.failed,
            patched.hard,
            patched.unknown
        ),
        (1, None, 0, 0),
        "{patched:?}"
    );
    assert!(
        patched.sites > 40
            && patched.sites - patched.skipped == patched.patched.iter().sum::<usize>(),
        "{patched:?}"
    );
    assert!(library.changed(code) >= patched.sites);
    assert_eq!(protection_of(code), "r-xp", "protection is as before");
    // Again: nothing to do. Another library at the same address: everything.
    assert_eq!(library.patch(code, &settings(&[])).sites, 0);
    // SAFETY: nobody runs this copy.
    let again = unsafe {
        mmap(
            code,
            library.code.2,
            READ | EXECUTE,
            PRIVATE | FIXED,
            library.file.as_raw_fd(),
            library.code.0,
        )
    };
    assert_eq!(again, code);
    assert_eq!(library.patch(code, &settings(&[])), patched);
    library.unmap(code);
}

#[test]
fn a_file_that_ends_early_is_refused() {
    let path = std::env::temp_dir().join(format!("culvert-short-{}", std::process::id()));
    let mut library = library();
    // In the middle of the code: every page behind is SIGBUS. And behind the code: there is nothing
    // that tells of functions.
    for (length, refused) in [
        (library.code.0 + library.code.2 / 2, true),
        (library.code.0 + library.code.2 + PAGE64, false),
        (0, true),
    ] {
        std::io::copy(
            &mut std::io::Read::take(&library.reopen(), length),
            &mut std::fs::File::create(&path).unwrap(),
        )
        .unwrap();
        library.file = std::fs::File::open(&path).unwrap();
        let code = library.map(PRIVATE);
        let patched = library.patch(code, &settings(&[]));
        assert_eq!(
            (patched.objects, patched.failed.is_some()),
            (1, refused),
            "{patched:?}"
        );
        library.unmap(code);
        library.file = self::library().file;
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_shared_mapping_is_left_alone() {
    let library = library();
    let code = library.map(SHARED);
    let patched = library.patch(code, &settings(&[]));
    assert!(
        patched.failed.is_some() && patched.patched == [0; 6],
        "{patched:?}"
    );
    assert_eq!(library.changed(code), 0);
    library.unmap(code);
}

#[test]
fn the_cache_finds_the_same_sites() {
    let directory = std::env::temp_dir().join(format!("culvert-sites-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path: &'static [u8] = directory.to_str().unwrap().to_owned().leak().as_bytes();
    let directories: &'static [&'static [u8]] = vec![&b"/nonexistent"[..], path].leak();
    let library = library();
    let (first, second) = (library.map(PRIVATE), library.map(PRIVATE));
    let decoded = library.patch(first, &settings(directories));
    let cached = library.patch(second, &settings(directories));
    assert_eq!((decoded.cached, cached.cached), (0, 1));
    assert_eq!(
        cached,
        patch::Patched {
            cached: 1,
            ..decoded
        }
    );
    assert!(library.changed(second) >= decoded.patched.iter().sum());

    // An object that says it is this one, but is not: the table is not used.
    let third = library.map(PRIVATE);
    // SAFETY: nobody runs this copy.
    unsafe {
        let start = third & !(PAGE64 - 1);
        assert_eq!(
            mmap(
                start,
                library.code.2,
                READ | WRITE | EXECUTE,
                PRIVATE | FIXED,
                library.file.as_raw_fd(),
                library.code.0
            ),
            start
        );
        let code = std::slice::from_raw_parts_mut(third as *mut u8, library.code.2 as usize);
        let mov = code
            .windows(7)
            .position(|bytes| bytes[0] == 0xb8 && bytes[3..] == [0, 0, 0x0f, 0x05])
            .unwrap();
        code[mov + 1] ^= 1; // another number
    }
    assert_eq!(library.patch(third, &settings(directories)).cached, 0);
    for code in [first, second, third] {
        library.unmap(code);
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn code_that_may_not_become_writable_is_rewritten() {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "under_memory_deny_write_execute"])
        .output()
        .unwrap();
    assert!(
        status.status.success(),
        "{}",
        String::from_utf8_lossy(&status.stdout)
    );
}

/// Run by the test above in a process of its own.
#[test]
#[ignore = "makes writable code impossible in its process"]
fn under_memory_deny_write_execute() {
    const PR_SET_MDWE: i32 = 65;
    const PR_MDWE_REFUSE_EXEC_GAIN: u64 = 1;
    // SAFETY: only forbids things from now on.
    if unsafe { prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0_u64, 0_u64, 0_u64) } != 0 {
        return; // Linux before 6.3
    }
    let library = library();
    let code = library.map(PRIVATE);
    let patched = library.patch(code, &settings(&[]));
    assert_eq!(
        (patched.objects, patched.failed, patched.hard),
        (1, None, 0),
        "{patched:?}"
    );
    assert!(library.changed(code) >= patched.sites);
    assert_eq!(protection_of(code), "r-xp");
}
