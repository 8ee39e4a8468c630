//! Room for the static thread-local storage of a program's libraries.
//!
//! Without an auditor ld.so lays out static TLS when it knows all libraries that the program needs.
//! With one it does so before, since the auditor's own code may use TLS, and the libraries must do
//! with the *surplus*: 1,664 bytes, meant for dlopen, and 288 for each auditor (`init_tls`,
//! elf/rtld.c; `_dl_tls_static_surplus_init`, elf/dl-tls.c; glibc 2.32 to 2.42). Only blocks that
//! are accessed by the initial-exec model take part of it, but for those that do not fit the
//! program ends. The tunable `glibc.rtld.optional_static_tls` makes the surplus larger, for which
//! every thread pays with its stack; so only programs that need it get it, and as much as natively:
//! ld.so tells of each library before it relocates any, and when they are too large the program is
//! started again, once, with the tunable. That is remembered by file beside the site tables, so
//! that the exec hook gives it the tunable at once the next time. The program does not see it.

use super::look::Look;
use super::tunables::MOST;
use super::{Extras, Format, Image, Loader, environment};
use crate::descriptors::handed::HandedDown;
use crate::process::{self, Process};
use crate::vfs::own_file;
use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::ffi::CStr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use culvert::Errno;
use culvert_intercept::images::{self, Key};
use culvert_intercept::user;
use culvert_run::{files::c_string, memory, read_file, read_link, stat_path};
use culvert_sys::fs;
use culvert_sys::raw::general::stat;

/// What one auditor adds to the surplus: `LIBC_IE_TLS` and `OTHER_IE_TLS`, elf/dl-tls.c.
const FOR_AN_AUDITOR: u64 = 288;

const SELF: &CStr = c"/proc/self/exe";

/// What has been counted while ld.so maps the program's libraries, by the only thread.
struct Count {
    /// The environment array on the stack, 0 before start-up.
    environment: AtomicUsize,
    /// The program's own `link_map`.
    program: AtomicUsize,
    /// Bytes that the tunable adds already.
    given: AtomicU64,
    /// Bytes of all libraries' blocks.
    sum: AtomicU64,
    /// Some block must be static.
    is_static: AtomicBool,
    /// The program is complete: what is loaded now is as natively.
    is_over: AtomicBool,
}

static COUNT: Count = Count {
    environment: AtomicUsize::new(0),
    program: AtomicUsize::new(0),
    given: AtomicU64::new(0),
    sum: AtomicU64::new(0),
    is_static: AtomicBool::new(false),
    is_over: AtomicBool::new(false),
};

/// The public part of glibc's `struct link_map` (link.h).
#[repr(C)]
pub struct LinkMap {
    base: usize,
    name: *const core::ffi::c_char,
    dynamic: *const [usize; 2],
}

// Entries of the dynamic section, and a relocation (the ELF gABI; the x86-64 psABI).
const DT_PLTRELSZ: usize = 2;

const DT_RELA: usize = 7;

const DT_RELASZ: usize = 8;

const DT_JMPREL: usize = 23;

const DT_FLAGS: usize = 30;

const DF_STATIC_TLS: usize = 0x10;

const R_X86_64_TPOFF64: u64 = 18;

/// Bytes of an `Elf64_Rela`.
const RELA: usize = 24;

impl LinkMap {
    /// The object's path, which ends in NUL; empty, or null, for the program itself.
    pub(super) fn name(&self) -> *const core::ffi::c_char {
        self.name
    }

    /// The value of the first entry `tag` of the dynamic section.
    ///
    /// # Safety
    /// This is ld.so's own map of an object that is mapped.
    pub(super) unsafe fn entry(&self, tag: usize) -> Option<usize> {
        if self.dynamic.is_null() {
            return None;
        }
        // SAFETY: the dynamic section ends with DT_NULL.
        (0..)
            .map(|i| unsafe { *self.dynamic.add(i) })
            .take_while(|[found, _]| *found != 0)
            .find_map(|[found, value]| (found == tag).then_some(value))
    }

    /// Bytes of the object's thread-local block, what its alignment may cost included; 0 when it
    /// has none. Its ELF header lies at its base.
    fn block(&self) -> Result<u64, Errno> {
        const PT_TLS: u32 = 7;
        let header: u32 = memory::get(self.base)?;
        if header.to_ne_bytes() != *b"\x7fELF" {
            return Ok(0);
        }
        let table = self.base + memory::get::<usize>(self.base + 32)?;
        let count = memory::get::<u32>(self.base + 56)? & 0xffff;
        for entry in (0..count as usize).map(|i| table + i * 56) {
            if memory::get::<u32>(entry)? == PT_TLS {
                let (size, alignment): (u64, u64) =
                    (memory::get(entry + 40)?, memory::get(entry + 48)?);
                return Ok(size.saturating_add(alignment.saturating_sub(8)));
            }
        }
        Ok(0)
    }

    /// Whether this is glibc's libc, whose block always fits.
    fn is_libc(&self) -> bool {
        // SAFETY: ld.so's names end in NUL.
        !self.name.is_null()
            && unsafe { core::ffi::CStr::from_ptr(self.name) }
                .to_bytes()
                .ends_with(b"/libc.so.6")
    }

    /// Whether this object accesses thread-local variables of others by the initial-exec model,
    /// which makes their blocks static. Of a program that is not said by DF_STATIC_TLS.
    ///
    /// # Safety
    /// As for `entry`.
    unsafe fn refers_to_static(&self) -> bool {
        [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)]
            .into_iter()
            .any(|(start, size)| {
                // SAFETY: the caller's promise.
                let (Some(start), Some(size)) = (unsafe { (self.entry(start), self.entry(size)) })
                else {
                    return false;
                };
                // Already moved to where the program lies, or not yet (`elf_get_dynamic_info`).
                let start = if start < self.base {
                    start + self.base
                } else {
                    start
                };
                (0..size / RELA)
                    .map_while(|i| memory::get::<u64>(start + i * RELA + 8).ok())
                    .any(|info| info & 0xffff_ffff == R_X86_64_TPOFF64 && info >> 32 != 0)
            })
    }
}

/// Start-up knows the program's environment array and how many bytes it was given
/// ([`super::tunables::given`]).
pub fn begin(environment: usize, given: u64) {
    COUNT.environment.store(environment, Relaxed);
    COUNT.given.store(given, Relaxed);
}

/// All libraries of the program are there: no more are counted.
pub fn end() {
    COUNT.is_over.store(true, Relaxed);
}

/// ld.so has mapped an object into the program's own namespace. Does not return when the program
/// must be started again.
///
/// # Safety
/// `map` is what ld.so gives to `la_objopen`.
pub unsafe fn object(map: *const LinkMap) {
    if COUNT.is_over.load(Relaxed) || COUNT.environment.load(Relaxed) == 0 {
        return;
    }
    if COUNT.program.load(Relaxed) == 0 {
        // ld.so lays out the program's own block with the knowledge of it.
        COUNT.program.store(map as usize, Relaxed);
        return;
    }
    // SAFETY: the caller's promise.
    let map = unsafe { &*map };
    let Ok(size @ 1..) = map.block() else {
        return;
    };
    let sum = COUNT.sum.fetch_add(size, Relaxed).saturating_add(size);
    // SAFETY: the caller's promise.
    if unsafe { map.entry(DT_FLAGS) }.is_some_and(|flags| flags & DF_STATIC_TLS != 0)
        && !map.is_libc()
    {
        COUNT.is_static.store(true, Relaxed);
    }
    let given = COUNT.given.load(Relaxed);
    if sum <= FOR_AN_AUDITOR + given || sum > MOST {
        return;
    }
    if !COUNT.is_static.load(Relaxed) {
        // SAFETY: the map of the program lives as long as the program.
        let program = unsafe { &*(COUNT.program.load(Relaxed) as *const LinkMap) };
        // SAFETY: as above.
        if !unsafe { program.refers_to_static() } {
            return;
        }
        COUNT.is_static.store(true, Relaxed);
    }
    // Libraries that are still to come are small, as a rule; if not, this happens again.
    let room = (sum + 1024).next_multiple_of(1024);
    let errno = start_again(process::get(), room);
    culvert_sys::log!(
        "{sum} bytes of static TLS may not fit, and starting again with more fails: {errno}"
    );
    COUNT.given.store(room, Relaxed);
}

/// Starts this program again from its beginning, with `room` bytes more of static TLS, and
/// remembers that. Comes back only on failure.
fn start_again(process: &Process, room: u64) -> Errno {
    match image(process, room) {
        Ok(image) => {
            remember(process, room);
            super::replace(&image)
        }
        Err(errno) => errno,
    }
}

/// This program as it was started, with `room` bytes more of static TLS.
fn image(process: &Process, room: u64) -> Result<Box<Image>, Errno> {
    let Started { path, words, own } = as_started()?;
    let mut image = Box::new(Image {
        path,
        arguments: Vec::new(),
        environment: Vec::new(),
        strings: words,
        shadow: None,
        nested: false,
        handed: HandedDown::default(),
        hindrance: None,
        saved: None,
    });
    let arguments = image.strings.iter().map(|string| string.as_ptr() as usize);
    image.arguments = arguments.chain([0]).collect();
    let environment = COUNT.environment.load(Relaxed);
    let extras = Extras {
        room: Some(room),
        said: None,
        own,
        copy: super::look::library_copy(),
    };
    let entries = environment::pointers(environment)?;
    environment::extend(process, &mut image, entries, Loader::Glibc, &extras)?;
    image.environment.push(0);
    Ok(image)
}

/// What execve gets to start this program as it was started.
pub struct Started {
    /// Its path.
    pub path: CString,
    /// Its arguments.
    pub words: Vec<CString>,
    /// What it is told about its own file.
    own: super::OwnFile,
}

/// As this program was started.
pub fn as_started() -> Result<Started, Errno> {
    // The strings are the kernel's; ld.so as a program may have taken its own out of the array.
    let text = read_file(c"/proc/self/cmdline")?;
    let words: Vec<&[u8]> = match text.strip_suffix(b"\0") {
        Some(text) => text.split(|&b| b == 0).collect(),
        None => Vec::new(),
    };
    let name = executed_as().unwrap_or_default();
    let same = |path: &CStr| -> Result<bool, Errno> {
        let (this, other) = (stat_path(SELF)?, stat_path(path)?);
        Ok((this.st_dev, this.st_ino) == (other.st_dev, other.st_ino))
    };
    let script = words
        .iter()
        .skip(1)
        .position(|word| *word == name.to_bytes());
    let is_script =
        || Look::open(&name).is_ok_and(|look| matches!(look.format(), Format::Script { .. }));
    let mut own = own_file::own().cloned().unwrap_or_default();
    let (path, words) = match script {
        _ if same(&name).unwrap_or(false) => (name, words),
        // The kernel puts interpreter, its argument and the script's name before what follows the
        // name.
        Some(at) if is_script() => {
            let first = words.iter().take(1);
            (name, first.chain(&words[at + 2..]).copied().collect())
        }
        // Executed by a descriptor that is closed, or renamed.
        _ => {
            own.given.get_or_insert(name.to_bytes().to_vec());
            let path = c_string(read_link(SELF)?);
            match same(&path) {
                Ok(true) => (path, words),
                _ => (SELF.into(), words),
            }
        }
    };
    let words = words.into_iter().map(c_string).collect();
    Ok(Started { path, words, own })
}

/// The path that execve was given (AT_EXECFN).
fn executed_as() -> Option<CString> {
    const AT_EXECFN: usize = 31;
    let vector = read_file(c"/proc/self/auxv").ok()?;
    let (words, _) = vector.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let address = pairs
        .iter()
        .map(|pair| pair.map(usize::from_ne_bytes))
        .find_map(|[tag, value]| (tag == AT_EXECFN).then_some(value))?;
    let mut name = vec![0; 4096];
    let length = user::string_in(address, &mut name).ok()?;
    name.truncate(length);
    Some(c_string(name))
}

/// Where it is remembered how much the file `found` needs: a link whose target is the number.
fn note(process: &Process, found: &stat) -> CString {
    let name = format!(
        "/tls-{:x}.{:x}.{:x}.{:x}",
        found.st_dev, found.st_ino, found.st_mtime, found.st_mtime_nsec
    );
    c_string([&process.run.site_tables()[..], name.as_bytes()].concat())
}

fn remember(process: &Process, room: u64) {
    let Ok(found) = stat_path(SELF) else {
        return;
    };
    let path = note(process, &found);
    // Where it fails the program is started twice the next time, too.
    let _ = fs::unlink(&path);
    let _ = fs::symlink(&c_string(format!("{room}")), &path);
    // The exec hook looks for the link.
    if let Some(images) = images::get() {
        let _ = images.store.mark(&Key::of(&found));
    }
}

/// How many bytes more than natively the surplus must hold for a program, if that is remembered.
pub fn wanted(process: &Process, look: &Look) -> Option<u64> {
    let number = read_link(&note(process, look.found().ok()?)).ok()?;
    let room = core::str::from_utf8(&number).ok()?.parse().ok()?;
    (1..=2 * MOST).contains(&room).then_some(room)
}
