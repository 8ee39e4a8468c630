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
pub const PLAIN: [u32; 4] = [1, 2, 9, 27];
/// `BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE`.
const WRITABLE: u32 = 24;
const MAP_CREATE: usize = 0;
const MAP_LOOKUP_ELEM: usize = 1;
const MAP_UPDATE_ELEM: usize = 2;
const MAP_DELETE_ELEM: usize = 3;
const MAP_GET_NEXT_KEY: usize = 4;
const PROG_LOAD: usize = 5;

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
}

/// `union bpf_attr` for what is done with an element; 0: no pointer.
#[repr(C)]
struct Element {
    map: u64,
    key: u64,
    value: u64,
    flags: u64,
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

/// Makes a map. Nobody but this process has it.
///
/// # Errors
/// No privilege (CAP_BPF), no memory.
pub fn map(kind: &MapKind) -> io::Result<OwnedFd> {
    made(MAP_CREATE, kind)
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

/// Loads a program whose instructions are `code`.
///
/// # Errors
/// With what the verifier says last, where it refuses the program.
pub fn program(code: &[u8]) -> Result<OwnedFd, String> {
    let mut log = vec![0_u8; 1 << 16];
    let mut load = Load {
        kind: WRITABLE,
        count: (code.len() / 8) as u32,
        instructions: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
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
