//! bpf(2): maps and programs.

use culvert_sys::{
    BorrowedFd as Borrowed,
    flags::Protection,
    memory::{Mapping, Of},
    nr, syscall,
};
use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

/// `BPF_MAP_TYPE_HASH`, `ARRAY`, `LRU_HASH`, `RINGBUF`: values have the size that is said.
pub const PLAIN: [u32; 4] = [1, ARRAY, 9, RING];
const ARRAY: u32 = 2;
/// `BPF_MAP_TYPE_RINGBUF`: its entries are bytes.
pub const RING: u32 = 27;
/// `BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE`.
const WRITABLE: u32 = 24;
const MAP_CREATE: usize = 0;
const MAP_LOOKUP_ELEM: usize = 1;
const MAP_UPDATE_ELEM: usize = 2;
const MAP_DELETE_ELEM: usize = 3;
const MAP_GET_NEXT_KEY: usize = 4;
const PROG_LOAD: usize = 5;
const PROG_GET_NEXT_ID: usize = 11;
const MAP_GET_NEXT_ID: usize = 12;
const PROG_GET_FD_BY_ID: usize = 13;
const MAP_GET_FD_BY_ID: usize = 14;
const OBJ_GET_INFO_BY_FD: usize = 15;
/// `BPF_OBJ_NAME_LEN`.
const NAME: usize = 16;

/// What a map is made of, in the order of `union bpf_attr` for `BPF_MAP_CREATE`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapKind {
    /// `BPF_MAP_TYPE_*`.
    pub kind: u32,
    /// Bytes.
    pub key_size: u32,
    /// Bytes.
    pub value_size: u32,
    /// How many.
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
}

/// `union bpf_attr` for `BPF_PROG_LOAD`, as far as it is used.
#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME],
}

/// `union bpf_attr` for `BPF_MAP_CREATE`, as far as it is used.
#[repr(C)]
struct Create {
    kind: MapKind,
    inner: u32,
    node: u32,
    name: [u8; NAME],
}

/// `union bpf_attr` for what is there: the number that is asked for, the next one, flags.
#[repr(C)]
struct Number {
    id: u32,
    next: u32,
    flags: u32,
}

/// `union bpf_attr` for `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct Info {
    object: u32,
    length: u32,
    info: u64,
}

/// `union bpf_attr` for what is done with an element; 0: no pointer.
#[repr(C)]
struct Element {
    map: u64,
    key: u64,
    value: u64,
    flags: u64,
}

/// Whether a map of this kind has its values in a row, and nothing beside them.
pub(crate) const fn is_array(kind: u32) -> bool {
    kind == ARRAY
}

fn bpf<T>(command: usize, attributes: &T) -> io::Result<usize> {
    let arguments = [
        command,
        std::ptr::from_ref(attributes) as usize,
        size_of::<T>(),
    ];
    // SAFETY: the attributes are those of the command and outlive the call, as does what they point
    // to: the callers.
    let done = unsafe { syscall::call(nr::BPF, arguments) };
    done.map_err(|error| io::Error::from_raw_os_error(error.raw()))
}

/// The same where the kernel writes into the attributes.
fn changed<T>(command: usize, attributes: &mut T) -> io::Result<usize> {
    let arguments = [
        command,
        std::ptr::from_mut(attributes) as usize,
        size_of::<T>(),
    ];
    // SAFETY: as above.
    let done = unsafe { syscall::call(nr::BPF, arguments) };
    done.map_err(|error| io::Error::from_raw_os_error(error.raw()))
}

fn made<T>(command: usize, attributes: &T) -> io::Result<OwnedFd> {
    let made = bpf(command, attributes)?;
    // SAFETY: a new descriptor of nobody else's; the kernel sets close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(made as i32) })
}

/// Whether there was such an element; other errors stay.
fn is_there(done: io::Result<usize>) -> io::Result<bool> {
    match done {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn element(map: &OwnedFd, key: Option<&[u8]>, value: u64) -> Element {
    Element {
        map: u64::from(map.as_raw_fd().cast_unsigned()),
        key: key.map_or(0, |key| key.as_ptr() as u64),
        value,
        flags: 0,
    }
}

/// The value of `key`, whose sizes are the map's; whether there is one.
pub(crate) fn lookup(map: &OwnedFd, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
    let element = element(map, Some(key), value.as_mut_ptr() as u64);
    is_there(bpf(MAP_LOOKUP_ELEM, &element))
}

/// Makes or changes an element, as above.
pub(crate) fn update(map: &OwnedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    let element = element(map, Some(key), value.as_ptr() as u64);
    bpf(MAP_UPDATE_ELEM, &element).map(drop)
}

/// Removes one; whether it was there.
pub(crate) fn delete(map: &OwnedFd, key: &[u8]) -> io::Result<bool> {
    is_there(bpf(MAP_DELETE_ELEM, &element(map, Some(key), 0)))
}

/// The key after `key`, or the first one; whether there is one.
pub(crate) fn next_key(map: &OwnedFd, key: Option<&[u8]>, next: &mut [u8]) -> io::Result<bool> {
    let element = element(map, key, next.as_mut_ptr() as u64);
    is_there(bpf(MAP_GET_NEXT_KEY, &element))
}

/// A name as the kernel has it: letters, digits, `_` and `.`; what is too long is cut.
fn named(name: &str) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    let length = name.len().min(NAME - 1);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}

/// Makes a map, which `name` stands beside where the kernel lists them. Nobody but this process has
/// it.
///
/// # Errors
/// No privilege (CAP_BPF), no memory.
pub fn map(kind: &MapKind, name: &str) -> io::Result<OwnedFd> {
    let create = Create {
        kind: *kind,
        inner: 0,
        node: 0,
        name: named(name),
    };
    made(MAP_CREATE, &create)
}

/// Bytes of memory that the kernel has for a map.
///
/// # Errors
/// Of /proc.
pub(crate) fn memory(map: &OwnedFd) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", map.as_raw_fd()))?;
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok());
    found.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The programs of this name that the kernel has, and the memory of the maps of this name.
///
/// # Errors
/// No privilege (CAP_SYS_ADMIN).
pub(crate) fn used(name: &str) -> io::Result<(usize, u64)> {
    let (mut programs, mut bytes) = (0, 0);
    // Where the names stand in `bpf_prog_info` and in `bpf_map_info`.
    each(PROG_GET_NEXT_ID, PROG_GET_FD_BY_ID, (64, name), |_| {
        programs += 1;
        Ok(())
    })?;
    each(MAP_GET_NEXT_ID, MAP_GET_FD_BY_ID, (24, name), |map| {
        bytes += memory(map)?;
        Ok(())
    })?;
    Ok((programs, bytes))
}

/// Does something with each object whose name stands at this place of what is said of it.
fn each(
    after: usize,
    open: usize,
    (place, name): (usize, &str),
    mut with: impl FnMut(&OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    let mut number = Number {
        id: 0,
        next: 0,
        flags: 0,
    };
    while is_there(changed(after, &mut number))? {
        number.id = number.next;
        let asked = Number { next: 0, ..number };
        let opened = match made(open, &asked) {
            Ok(opened) => opened,
            // Gone meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut about = [0_u8; 128];
        let mut info = Info {
            object: opened.as_raw_fd().cast_unsigned(),
            length: about.len() as u32,
            info: about.as_mut_ptr() as u64,
        };
        changed(OBJ_GET_INFO_BY_FD, &mut info)?;
        if about[place..place + NAME] == named(name) {
            with(&opened)?;
        }
    }
    Ok(())
}

/// The values of an array, mapped.
///
/// # Errors
/// It is not `BPF_F_MMAPABLE`.
pub fn mapped(map: &OwnedFd, length: usize) -> io::Result<Mapping> {
    let all = Of::Shared(Borrowed::number(map.as_raw_fd()), 0);
    let both = Protection::READ | Protection::WRITE;
    Mapping::near(0, all, length, both).map_err(|error| io::Error::from_raw_os_error(error.raw()))
}

/// Loads a program whose instructions are `code`; `name` as of a map.
///
/// # Errors
/// With what the verifier says last, where it refuses the program.
pub fn program(code: &[u8], name: &str) -> Result<OwnedFd, String> {
    let mut log = vec![0_u8; 1 << 16];
    let mut load = Load {
        kind: WRITABLE,
        count: (code.len() / 8) as u32,
        instructions: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: named(name),
    };
    let first = match made(PROG_LOAD, &load) {
        Ok(program) => return Ok(program),
        Err(error) => error,
    };
    (load.log_level, load.log_size) = (1, log.len() as u32);
    load.log = log.as_mut_ptr() as u64;
    made(PROG_LOAD, &load).map_err(|_| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let text = String::from_utf8_lossy(&log[..end]);
        let last = text
            .lines()
            .rev()
            .find(|line| !line.is_empty() && !line.starts_with("processed"));
        format!("{first}: {}", last.unwrap_or("the verifier says nothing"))
    })
}
