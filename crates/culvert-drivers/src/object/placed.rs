//! A shared object in memory: mapped, relocated, its initialisers run. Its code is never rewritten,
//! so that its system calls are the kernel's.

use super::elf::{Object, Provider, Segment, Value};
use super::{HEAD, check_head};
use culvert::library::abi::{Driver, STATELESS};
use culvert::{Errno, Result};
use culvert_sys::fd::memfd_create;
use culvert_sys::flags::Protection;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::raw::general as linux;
use culvert_sys::table::Word;
use culvert_sys::{AsFd, fs, nr, process, syscall};

type Initialiser = unsafe extern "C" fn(i32, *const *const u8, *const *const u8);

/// Loads `object`, which stays for as long as the process lives, and returns its functions.
pub fn load(object: &Object<'_>, provided: Provider) -> Result<Driver> {
    object.check(provided)?;
    // Before anything of it runs.
    if object.flags()? & STATELESS == 0 {
        return Err(super::refused(
            "it does not say that it is stateless (CULVERT_STATELESS), so it runs in a host",
        ));
    }
    let table = object.driver()?;
    let all = Protection::READ | Protection::WRITE;
    let mapping = Mapping::new(Of::Nothing, object.span, all)?;
    let start = mapping.start();
    for segment in &object.segments {
        let (count, place) = (segment.bytes.len(), start.wrapping_add(segment.address));
        // SAFETY: `Object::read` has checked that a segment ends within the span, which is mapped.
        unsafe { place.copy_from_nonoverlapping(segment.bytes.as_ptr(), count) };
    }
    object.relocations(provided, |at, value| {
        let place = start.wrapping_add(at as usize).cast::<u64>();
        // SAFETY: `relocations` gives places within the span alone.
        unsafe {
            let value = match value {
                Value::Own(value) => value.wrapping_add(start as u64),
                Value::Moved => place.read_unaligned().wrapping_add(start as u64),
                Value::Elsewhere(address) => address,
            };
            place.write_unaligned(value);
        }
    })?;
    for segment in &object.segments {
        protect(start, segment)?;
    }
    let room = object.span.saturating_sub(table as usize);
    let place = start.wrapping_add(table as usize);
    // What cannot be is told while nothing has run; initialisers may fill the table.
    functions(place, room)?;
    initialise(object, mapping.leak());
    functions(place, room)
}

fn protect(start: *mut u8, segment: &Segment<'_>) -> Result<()> {
    let (from, to) = (segment.address & !4095, segment.address + segment.length);
    let rights = [
        (4, Protection::READ),
        (2, Protection::WRITE),
        (1, Protection::EXEC),
    ];
    let given = rights.iter().filter(|(flag, _)| segment.flags & flag != 0);
    let word = given.fold(0, |word, (_, right)| word | right.word());
    let arguments = [
        start as usize + from,
        to.next_multiple_of(4096) - from,
        word,
    ];
    // SAFETY: pages of the mapping that was made for it.
    match unsafe { syscall::call(nr::MPROTECT, arguments) } {
        Err(_) if segment.flags & 1 != 0 => map_file(arguments),
        protected => Ok(protected.map(drop)?),
    }
}

/// Where memory that was written is never executed (PR_SET_MDWE, systemd's MemoryDenyWriteExecute,
/// SELinux): a memory file with the bytes that are there, mapped in their place.
fn map_file([place, length, rights]: [usize; 3]) -> Result<()> {
    let create = |flags| memfd_create(c"culvert-library", flags);
    // MFD_EXEC since Linux 6.3, where vm.memfd_noexec may ask for it.
    let file =
        create(linux::MFD_CLOEXEC | linux::MFD_EXEC).or_else(|_| create(linux::MFD_CLOEXEC))?;
    // A write beyond the limit would end the program (SIGXFSZ).
    if process::getrlimit(linux::RLIMIT_FSIZE)?[0] < length as u64 {
        return Err(Errno::EFBIG.into());
    }
    // SAFETY: pages of the mapping that was made for it; nothing changes them meanwhile.
    let mut rest = unsafe { core::slice::from_raw_parts(place as *const u8, length) };
    while !rest.is_empty() {
        rest = rest.get(fs::write(&file, rest)?..).unwrap_or_default();
    }
    let how = (linux::MAP_PRIVATE | linux::MAP_FIXED) as usize;
    let arguments = [place, length, rights, how, file.as_fd().word(), 0];
    // SAFETY: in place of the same pages, with the same bytes.
    unsafe { syscall::call(nr::MMAP, arguments) }?;
    Ok(())
}

fn initialise(object: &Object<'_>, start: *mut u8) {
    let none = [core::ptr::null()];
    let call = |address: usize| {
        // SAFETY: the object says that this is a function of its own, which runs once, before all
        // others; what it does is its author's.
        unsafe {
            let function = core::mem::transmute::<usize, Initialiser>(address);
            function(0, none.as_ptr(), none.as_ptr());
        }
    };
    let (first, table) = object.initialisers();
    if let Some(at) = first {
        call(start as usize + at as usize);
    }
    let (at, size) = table.unwrap_or_default();
    for number in 0..size / 8 {
        let place = start
            .wrapping_add((at + number * 8) as usize)
            .cast::<usize>();
        // SAFETY: `initialisers` gives a table within the span.
        match unsafe { place.read_unaligned() } {
            0 | usize::MAX => {}
            address => call(address),
        }
    }
}

/// The functions of the table at `place`, of which `room` bytes can be read.
fn functions(place: *const u8, room: usize) -> Result<Driver> {
    if room < HEAD {
        return Err(Errno::ENOEXEC.into());
    }
    // SAFETY: `room` bytes are there, and every version begins so.
    let [version, size] = unsafe { place.cast::<[u32; 2]>().read_unaligned() };
    check_head(version, size)?;
    let length = (size as usize).min(size_of::<Driver>());
    if length > room {
        return Err(super::refused("culvert_driver.size is more than it has"));
    }
    // SAFETY: so many bytes are there.
    Ok(unsafe { table(place, length) })
}

/// The functions in the first `length` bytes at `place`, after the head; those behind are missing.
///
/// # Safety
/// As many bytes are there as the library says, each function a pointer or null.
pub unsafe fn table(place: *const u8, length: usize) -> Driver {
    let mut driver = Driver::NONE;
    let length = length.min(size_of::<Driver>());
    // SAFETY: the caller's promise, and room for all.
    unsafe {
        core::ptr::from_mut(&mut driver)
            .cast::<u8>()
            .copy_from_nonoverlapping(place, length);
    }
    driver
}
